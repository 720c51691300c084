"""Which process of a worker runs which module, and what it may therefore import."""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import limpet

SOURCE = Path(limpet.__file__).parent
FILES = {
    ".".join(("limpet", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in SOURCE.rglob("*.py")
}

GUARDIAN = {"begin", "guardian"}
SUPERVISOR = {
    "blame", "claimer", "crew", "death", "declaring", "demand", "dispatcher", "drain", "exchanger",
    "executor_link", "gatekeeper", "given", "guardian_link", "heart", "holds", "limits", "line",
    "notice", "observer", "parts", "placement", "recall", "reconciler", "relief", "repeated",
    "request_server", "scope", "services", "settler", "supervisor", "suspicion",
}  # fmt: skip
EXECUTOR = {
    "attempt", "children", "containment", "executor", "lane_executor", "loop_executor",
    "process_state", "registry", "remote", "sources", "watched_calls", "zygote",
}  # fmt: skip
# What more than one of them runs: how they talk, and the rules that they share.
WIRE = {
    "bounds", "catalog", "endings", "frames", "page", "plan", "policy", "request_answers",
    "request_bounds", "task_requests", "voice",
}  # fmt: skip
USER_CODE = (
    "app", "client", "context", "control", "demo", "flow", "hooks", "intake", "locate", "ops",
    "permits", "schedules", "task", "timetable",
)  # fmt: skip
# When a schedule ticks is reckoned from its timing alone.
HARMLESS = {"limpet.client", "limpet.client.cron"}


def full(names: Iterable[str]) -> set[str]:
    return {f"limpet.worker.{name}" for name in names}


@cache
def imports_of(module: str) -> frozenset[str]:
    return frozenset(_imports(ast.parse(FILES[module].read_text())))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in FILES else node.module


def top_level_imports_of(module: str) -> set[str]:
    """Those that are carried out when the module is imported, and not later or for mypy alone."""
    body = ast.parse(FILES[module].read_text()).body
    plain: list[ast.stmt] = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return set(_imports(ast.Module(plain, [])))


def reached_from(names: Iterable[str]) -> set[str]:
    """The modules of Limpet that these import, also through others."""
    found, left = set[str](), full(names)
    while left:
        module = left.pop()
        found.add(module)
        left |= {each for each in imports_of(module) if each in FILES} - found
    return found


def test_every_module_of_the_worker_belongs_to_one_process_or_to_all() -> None:
    parts = (GUARDIAN, SUPERVISOR, EXECUTOR, WIRE)
    assert sum(map(len, parts)) == len(set().union(*parts))
    there = {path.stem for path in (SOURCE / "worker").glob("*.py")} - {"__init__"}
    assert set().union(*parts) == there


@pytest.mark.parametrize("name", sorted(GUARDIAN))
def test_the_guardian_imports_the_standard_library_host_domain_page_and_plan(name: str) -> None:
    allowed = full(("page", "plan"))
    for module in imports_of(f"limpet.worker.{name}"):
        package = module.partition(".")[0]
        assert (
            package in sys.stdlib_module_names
            or module in allowed
            or module.startswith(("limpet.host", "limpet.domain"))
        ), module


def test_the_supervisor_never_reaches_what_loads_user_code() -> None:
    reached = reached_from(SUPERVISOR) - HARMLESS
    foreign = tuple(f"limpet.{name}" for name in USER_CODE)
    assert {each for each in reached if each.startswith(foreign)} == set()


def test_the_processes_of_a_worker_never_import_each_other() -> None:
    for part in (GUARDIAN, SUPERVISOR, EXECUTOR):
        others = full((GUARDIAN | SUPERVISOR | EXECUTOR) - part)
        assert reached_from(part) & others == set()
    assert reached_from(WIRE) & full(GUARDIAN | SUPERVISOR | EXECUTOR) == set()


def test_the_parts_of_a_worker_can_be_made_one_after_the_other() -> None:
    """Each is made of what was made before it, so no two need each other."""
    names = full(GUARDIAN | SUPERVISOR | EXECUTOR | WIRE)
    order = TopologicalSorter({each: top_level_imports_of(each) & names for each in names})
    assert set(order.static_order()) == names


def test_an_executor_names_no_backend() -> None:
    backends = tuple(f"limpet.storage.{name}" for name in ("sqlite", "postgres", "redis"))
    for name in sorted(EXECUTOR | WIRE):
        module = f"limpet.worker.{name}"
        assert not {each for each in imports_of(module) if each.startswith(backends)}
        literals = {
            node.value
            for node in ast.walk(ast.parse(FILES[module].read_text()))
            if isinstance(node, ast.Constant)
        }
        assert not literals & {"sqlite", "postgres", "postgresql", "redis"}
