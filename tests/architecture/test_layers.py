"""What import-linter cannot check."""

import ast
import re
import sys
from pathlib import Path

import pytest
from state_chart import PAGE, page

import limpet
from limpet.storage.assets import script

SOURCE = Path(limpet.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_MODULE = 400
SQL_WORDS = re.compile(
    r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|WITH|REPLACE)\b[^:]*"
    r"\b(FROM|INTO|SET|TABLE|INDEX|AS|\w+_\w+)\b",
    re.IGNORECASE,
)
FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION limpet\.(v\d+_\w+)")


def relative(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", sorted((SOURCE / "domain").glob("*.py")), ids=relative)
def test_domain_uses_the_standard_library_only(path: Path) -> None:
    allowed = sys.stdlib_module_names
    foreign = {
        name
        for name in imported(ast.parse(path.read_text()))
        if name.partition(".")[0] not in allowed and not name.startswith("limpet.domain")
    }
    assert not foreign


@pytest.mark.parametrize("path", sorted((SOURCE / "domain").glob("*.py")), ids=relative)
def test_domain_does_no_input_or_output(path: Path) -> None:
    forbidden = {"socket", "sqlite3", "subprocess", "pathlib", "asyncio", "urllib", "logging"}
    assert not imported(ast.parse(path.read_text())) & forbidden
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "print", "input"}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_sql_in_python(path: Path) -> None:
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    docstrings = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert [text for text in texts if text not in docstrings and SQL_WORDS.match(text)] == []


def test_the_search_for_sql_finds_sql() -> None:
    assert SQL_WORDS.match("SELECT id FROM limpet_job")
    assert SQL_WORDS.match("update limpet_job set state = 'x'")
    assert not SQL_WORDS.match("update the handle")


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_stays_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


RUNS_WHAT_IT_READS = {
    "pickle",
    "_pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "code",
}
WRITTEN = re.compile(
    r"\b(pickle|marshal|shelve|dill)\b|(?<![\w.])(eval|exec|compile|__import__)\(|\byaml\.load\b"
)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_that_is_read_can_run(path: Path) -> None:
    """What another process, a store or a file says is data: no form that can name code is read."""
    text = path.read_text()
    tree = ast.parse(text)
    assert not {name.partition(".")[0] for name in imported(tree)} & RUNS_WHAT_IT_READS
    assert [match[0] for match in WRITTEN.finditer(text)] == []
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"eval", "exec", "compile", "__import__"}


def test_the_search_for_what_can_run_finds_it() -> None:
    for line in ("import pickle", "answer = eval(text)", "exec(code)", "marshal.loads(data)"):
        assert WRITTEN.search(line)
    for line in ("re.compile(x)", "the executor(s)", "os.execve(path)", "script.exec(x)"):
        assert not WRITTEN.search(line)


def test_every_public_name_is_listed_and_importable() -> None:
    assert list(limpet.__all__) == sorted(limpet.__all__)
    for name in limpet.__all__:
        assert getattr(limpet, name) is not None
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    declared = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("limpet.")
        for alias in node.names
    }
    assert declared == set(limpet.__all__)
    with pytest.raises(AttributeError):
        _ = limpet.no_such_name


def test_the_state_chart_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make chart`"


STORAGE = SOURCE / "storage"
SQL = sorted(path for path in STORAGE.glob("*/sql/*.sql"))
SHARED_SQL = STORAGE / "sql"
FUNCTIONS = sorted(STORAGE.glob("postgres/functions/*.sql"))
MIGRATIONS = sorted(STORAGE.glob("*/migrations/*.sql"))


def test_the_search_for_scripts_finds_those_of_both_stores() -> None:
    for found in (SQL, MIGRATIONS):
        assert {path.parents[1].name for path in found} == {"sqlite", "postgres"}
    assert FUNCTIONS


@pytest.mark.parametrize("path", [*SQL, *FUNCTIONS], ids=relative)
def test_every_script_has_a_header(path: Path) -> None:
    header = re.split("^(?:-- statement:|[A-Z])", path.read_text(), maxsplit=1, flags=re.MULTILINE)
    assert header[0].startswith(f"-- {path.stem.lstrip('0123456789_')}: ")
    for part in ("-- purpose: ", "-- params: ", "-- returns: "):
        assert part in header[0]


@pytest.mark.parametrize("path", MIGRATIONS, ids=relative)
def test_every_migration_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith(f"-- {path.stem}: ")


@pytest.mark.parametrize("path", SQL, ids=relative)
def test_every_statement_is_used(path: Path) -> None:
    """A statement that nothing runs is dead; one that is run and missing fails its verb."""
    store, verb = path.parents[1], path.stem
    if verb in ("invariants", "repair_store"):
        return  # each is run because it is there
    shared = (*SHARED_SQL.glob("*.py"), STORAGE / "contract" / "relocation.py")
    code = "\n".join(each.read_text() for each in (*store.glob("*.py"), *shared))
    statements = script(f"limpet.storage.{store.name}", "sql", verb).statements
    assert [name for name in statements if f'"{name}"' not in code] == []


def test_every_function_is_used_and_has_a_name_of_its_own() -> None:
    """The code calls a function by its name without the number of the version."""
    texts = [path.read_text() for path in FUNCTIONS]
    made = [name for text in texts for name in FUNCTION.findall(text)]
    assert sorted(set(made)) == sorted(made)
    others = (*SQL, *(STORAGE / "postgres").glob("*.py"))
    code = "\n".join((*texts, *(path.read_text() for path in others)))
    unused = [
        name
        for name in made
        if len(re.findall(rf"(?<!FUNCTION )\blimpet\.{name}\b", code)) == 0
        and f'"{name.partition("_")[2]}"' not in code
    ]
    assert unused == []


LUA = SOURCE / "storage" / "redis" / "lua"


@pytest.mark.parametrize("path", sorted(LUA.glob("*.lua")), ids=lambda path: path.stem)
def test_every_lua_script_has_a_header_and_is_used(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"-- {path.stem}: ")
    for part in ("-- purpose: ", "-- params: ", "-- returns: "):
        assert part in text
    code = "\n".join(each.read_text() for each in LUA.parent.glob("*.py"))
    assert f'"{path.stem}"' in code


@pytest.mark.parametrize("path", sorted(LUA.glob("include/*.lua")), ids=lambda path: path.stem)
def test_every_part_of_a_lua_script_has_a_header_and_is_included(path: Path) -> None:
    assert path.read_text().startswith(f"-- {path.stem}: ")
    line = f"-- include: {path.stem}\n"
    assert any(line in each.read_text() for each in LUA.glob("*.lua"))


def test_every_text_goes_to_a_terminal_by_one_door() -> None:
    """What is printed past `cli.output` and the live views is not escaped."""
    doors = {"cli/output.py", "cli/live.py", "cli/screen.py"}
    past = {
        f"{relative(path)}:{node.lineno}"
        for path in MODULES
        if relative(path).startswith("cli/") and relative(path) not in doors
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _prints(node.func)
    }
    assert past == set()


def test_every_text_on_a_picture_is_escaped_in_one_place() -> None:
    """What rich is given past `cli.style` may be obeyed by a terminal, or taken for markup."""
    doors = {"cli/style.py", "cli/terminal.py", "cli/progress.py"}
    past = {
        f"{relative(path)}:{node.lineno}"
        for path in MODULES
        if relative(path).startswith("cli/") and relative(path) not in doors
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and re.fullmatch(
            r"(Text|Console)(\.\w+)?|.*\.(from_markup|render_str)", ast.unparse(node.func)
        )
    }
    assert past == set()


def _prints(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id == "print"
    return isinstance(called, ast.Attribute) and ast.unparse(called) in (
        "sys.stdout.write", "sys.stderr.write", "os.write", "sys.stdout.writelines",
    )  # fmt: skip
