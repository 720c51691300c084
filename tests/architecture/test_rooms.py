"""What import-linter cannot check of the rooms: that every module has one, and names no store."""

import ast
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import limpet

SOURCE = Path(limpet.__file__).parent
PROJECT = SOURCE.parents[1]


def name_of(path: Path) -> str:
    parts = ("limpet", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


FILES = {name_of(path): path for path in SOURCE.rglob("*.py")}
BACKENDS = ("sqlite", "postgres", "redis")
# Front ends may speak of a store by name to people; who runs work or keeps rules may not.
NAME_NO_BACKEND = (
    "app", "client", "gate", "maintenance", "payload", "worker.executor", "worker.supervisor",
    "worker.wire",
)  # fmt: skip


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text())


def layers() -> set[str]:
    with (PROJECT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return {
        package
        for contract in contracts
        if contract["type"] == "layers"
        for layer in contract["layers"]
        for package in layer.split(" | ")
    }


def test_every_module_has_a_layer() -> None:
    """But the front door, which imports nothing, and the test kit, which nobody imports."""
    free = {"limpet", "limpet.worker", "limpet.testing"}
    rooms = tuple(f"{layer}." for layer in layers())
    lost = {
        name
        for name in FILES
        if not f"{name}.".startswith(rooms)
        and name not in free
        and not name.startswith("limpet.testing.")
    }
    assert lost == set()


def top_level_imports_of(module: str) -> set[str]:
    """Those that are carried out when the module is imported, and not later or for mypy alone."""
    found: set[str] = set()
    for node in tree_of(module).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in names}
    return found


def test_the_parts_of_a_worker_can_be_made_one_after_the_other() -> None:
    """Each is made of what was made before it, so no two need each other."""
    names = {name for name in FILES if name.startswith("limpet.worker.")}
    order = TopologicalSorter({name: top_level_imports_of(name) & names for name in names})
    assert set(order.static_order()) == names


@pytest.mark.parametrize("room", NAME_NO_BACKEND)
def test_a_store_is_named_by_its_url_alone(room: str) -> None:
    modules = [name for name in FILES if name.startswith(f"limpet.{room}.")]
    assert modules
    for module in modules:
        texts = {node.value for node in ast.walk(tree_of(module)) if isinstance(node, ast.Constant)}
        assert not texts & {*BACKENDS, "postgresql"}, module


def test_the_stores_have_the_same_files() -> None:
    """A verb is in the file of the same name in each store; what one has alone is listed here."""
    in_sql = {"breakers", "database", "fence", "transaction"}
    own = {
        # One file, one writer: who may write, who may open it, what a fork or a boot does to it;
        # and the steps that the other stores do in functions and scripts on the server.
        "sqlite": {
            *in_sql, "admission", "after", "allowance", "boot", "claim", "columns", "connection",
            "forks", "keys", "late_sync", "moved_settings", "rights", "shaped", "unique",
            "writer_lock",
        },
        # A server: who holds up its clean-up, lists as parameters, what is held, what it is.
        "postgres": {*in_sql, "chime", "held", "info", "lists", "overdue"},
        # Scripts on one connection in place of transactions; rows and answers are bytes.
        "redis": {
            "connection", "connections", "durability", "layout", "link", "moved_settings",
            "packed", "rows", "timeline",
        },
    }  # fmt: skip
    files = {
        store: {path.stem for path in (SOURCE / "storage" / store).glob("*.py")} for store in own
    }
    assert {store: own[store] - files[store] for store in own} == {store: set() for store in own}
    shared = [files[store] - own[store] for store in own]
    assert shared[0] == shared[1] == shared[2]
    assert len(shared[0]) > 20
