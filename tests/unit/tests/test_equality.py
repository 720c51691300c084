"""The judge of a whole run: it lets no backend pass fewer tests than another."""

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
CONFTEST = """
    import pytest
    from equality import Equality

    BACKENDS = ("one", "two", "two-b")

    def pytest_configure(config):
        config.addinivalue_line("markers", "not_on: where it cannot be tried")
        folder = config.rootpath / "contract"
        config.pluginmanager.register(Equality(config, frozenset(BACKENDS), folder))

    @pytest.fixture(params=BACKENDS)
    def backend(request):
        return request.param
"""
FINE = """
    import pytest

    @pytest.mark.parametrize("number", [1, 2])
    def test_fine(backend, number):
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small suite on three backends, in which all is well."""
    # What others have plugged in would be read anew for each run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makeini(
        f"[pytest]\npythonpath = {TESTS}\naddopts = -p no:cacheprovider --import-mode=importlib\n"
    )
    add(pytester, "test_fine", FINE)
    return pytester


def add(suite: pytest.Pytester, name: str, text: str, folder: str = "contract") -> None:
    path = suite.path / folder / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(line[4:] for line in text.splitlines()))


def test_run_in_which_all_is_well_says_so(suite: pytest.Pytester) -> None:
    run = suite.runpytest_inprocess()
    assert run.ret == 0
    run.stdout.fnmatch_lines(["each of one, two, two-b passed the same 2 tests"])


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "two"])
def test_backend_that_passes_fewer_tests_fails_the_run(
    suite: pytest.Pytester, words: tuple[str, ...]
) -> None:
    add(suite, "test_odd", """
    import pytest

    @pytest.mark.parametrize("some", ["one", "two"])
    def test_odd(some):
        pass
    """)  # fmt: skip
    run = suite.runpytest_subprocess(*words)
    assert run.ret == 1
    run.assert_outcomes(passed=8)
    run.stdout.fnmatch_lines(["two-b did not pass contract/test_odd.py::test_odd[[]*[]]"])


def test_tests_of_other_folders_may_be_for_one_backend(suite: pytest.Pytester) -> None:
    add(suite, "test_own", """
    import pytest

    @pytest.mark.parametrize("some", ["one"])
    def test_own(some):
        pass
    """, folder="acceptance")  # fmt: skip
    run = suite.runpytest_inprocess()
    assert run.ret == 0
    run.assert_outcomes(passed=7)


def test_test_that_fails_on_one_backend_is_named(suite: pytest.Pytester) -> None:
    add(
        suite,
        "test_odd",
        """
    def test_odd(backend):
        assert backend != "two"
    """,
    )
    run = suite.runpytest_inprocess()
    run.stdout.fnmatch_lines(["two did not pass contract/test_odd.py::test_odd[[]*[]]"])
    run.stdout.no_fnmatch_line("one did not pass*")


def test_test_that_fails_while_it_is_cleared_away_is_named(suite: pytest.Pytester) -> None:
    add(
        suite,
        "test_odd",
        """
    import pytest

    @pytest.fixture
    def unsound(backend):
        yield
        assert backend != "two"

    def test_odd(unsound):
        pass
    """,
    )
    run = suite.runpytest_inprocess()
    assert run.ret == 1
    run.stdout.fnmatch_lines(["two did not pass contract/test_odd.py::test_odd[[]*[]]"])


def test_backend_that_is_never_tried_fails_a_run_of_the_whole_folder(
    suite: pytest.Pytester,
) -> None:
    text = CONFTEST.replace("params=BACKENDS", 'params=("one", "two")')
    suite.makeconftest(text)
    for words in ((), ("contract",), (".",)):
        run = suite.runpytest_inprocess(*words)
        assert run.ret == 1
        run.stdout.fnmatch_lines(["two-b did not pass contract/test_fine.py::test_fine*"])


@pytest.mark.parametrize("body", ['pytest.skip("no")', 'pytest.xfail("no")'])
def test_test_that_is_left_out_fails_the_run_wherever_it_is(
    suite: pytest.Pytester, body: str
) -> None:
    add(suite, "test_odd", f"""
    import pytest

    def test_odd():
        {body}
    """, "unit")  # fmt: skip
    run = suite.runpytest_inprocess()
    assert run.ret == 1
    run.stdout.fnmatch_lines(["unit/test_odd.py::test_odd was left out: *no"])
    assert suite.runpytest_inprocess("-k", "odd").ret == 0


def test_module_that_is_left_out_fails_the_run(suite: pytest.Pytester) -> None:
    add(suite, "test_odd", """
    import pytest

    pytest.skip("no", allow_module_level=True)
    """, "unit")  # fmt: skip
    run = suite.runpytest_inprocess()
    assert run.ret == 1
    run.stdout.fnmatch_lines(["unit/test_odd.py was left out: *no*"])


def test_part_of_a_run_is_not_judged(suite: pytest.Pytester) -> None:
    for words in (
        ("-k", "one"),
        ("contract/test_fine.py",),
        ("contract/test_fine.py::test_fine[one-1]",),
        ("--deselect", "contract/test_fine.py::test_fine[two-1]"),
    ):
        run = suite.runpytest_inprocess(*words)
        assert run.ret == 0, words
        run.stdout.no_fnmatch_line("*passed the same*")


def test_backend_on_which_a_test_cannot_be_tried_is_told(suite: pytest.Pytester) -> None:
    add(suite, "test_odd", """
    import pytest

    @pytest.mark.not_on("two-b", "it has no second process")
    @pytest.mark.parametrize("some", ["one", "two"])
    def test_odd(some):
        pass
    """)  # fmt: skip
    run = suite.runpytest_inprocess()
    assert run.ret == 0
    run.stdout.fnmatch_lines(["each of * same 2 tests; 1 more cannot be tried on two-b"])
