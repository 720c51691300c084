"""What `limpet` exports: all of it is listed, and nothing that a user meets is left out."""

import inspect
import re
import subprocess
import sys

import limpet
from limpet.domain import errors

# Those that only workers, command lines and other stores meet.
NOT_MET = {
    "HostNotFound",
    "SequenceError",
    "SessionLost",
    "StoreNotMoved",
    "StoreRolledBack",
    "UnknownParent",
}

ERRORS = {
    name
    for name, kind in vars(errors).items()
    if inspect.isclass(kind)
    and issubclass(kind, BaseException)
    and kind.__module__ == errors.__name__
    and not name.startswith("_")
}


def test_dir_lists_the_public_names_before_any_of_them_is_used() -> None:
    """In a process of its own, because what others here have imported would be listed too."""
    code = "import limpet; print(*dir(limpet))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in ran.stdout.split() if not name.startswith("__")] == limpet.__all__
    assert {"__version__", "__doc__", "__file__"} <= set(ran.stdout.split())


def test_dir_lists_no_module_that_was_imported_meanwhile() -> None:
    assert set(dir(limpet)) & {"app", "domain", "client", "import_module"} == set()
    assert sorted(set(limpet.__all__) - set(dir(limpet))) == []


def test_every_error_that_a_user_may_meet_is_exported() -> None:
    assert ERRORS - set(limpet.__all__) == NOT_MET


def test_the_tree_of_errors_shows_each_below_its_base() -> None:
    assert errors.__doc__ is not None
    above: list[str] = []
    drawn: dict[str, str] = {}
    for line in errors.__doc__.splitlines():
        branch = re.match(r"([│├└─ ]*)(\w+)(?: {2,}|$)", line)
        if branch is None or branch[2] not in {*ERRORS, "Cause"}:
            continue
        depth = len(branch[1]) // 4
        above[depth:] = [branch[2]]
        drawn[branch[2]] = above[depth - 1] if depth else ""
    assert set(drawn) == {*ERRORS, "Cause"}
    for name, base in drawn.items():
        bases = [kind.__name__ for kind in getattr(errors, name, limpet.Cause).__mro__[1:]]
        assert [each for each in bases if each in drawn][:1] == ([base] if base else []), name
