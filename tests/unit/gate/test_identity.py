"""A host keeps its name, and those whom one limit bounds agree on whose it is."""

import os
from pathlib import Path

import pytest
from machine_tree import GIB, MachineTree

from limpet.domain.errors import InvalidOption
from limpet.gate.identity import capacity_id, in_container, server_id
from limpet.gate.measure.capacity import Bounds, bounds_of_self

BOOT = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.machine()
    namespaces(tree, uts="4026531838", pid="4026531836")
    return tree


def namespaces(tree: MachineTree, **numbers: str) -> None:
    folder = tree.root / "proc/self/ns"
    folder.mkdir(parents=True, exist_ok=True)
    for name, number in numbers.items():
        (folder / name).unlink(missing_ok=True)
        os.symlink(f"{name}:[{number}]", folder / name)


def container(tree: MachineTree) -> None:
    namespaces(tree, uts="4026532999", pid="4026533000")


def within(tree: MachineTree) -> Bounds:
    return bounds_of_self(str(tree), 4)


def name(tree: MachineTree, given: str | None = None, host_name: str = "web-2") -> str:
    return server_id(given, within(tree), BOOT, host_name, root=str(tree))


def test_what_was_given_is_the_name(tree: MachineTree) -> None:
    container(tree)
    assert name(tree, "rack-7") == "rack-7"
    with pytest.raises(InvalidOption, match="server id 'a b'"):
        name(tree, "a b")


def test_a_machine_has_its_own_name(tree: MachineTree) -> None:
    tree.write(".dockerenv", "")  # left behind in an image that a machine was made of
    assert name(tree) == "web-2"
    assert capacity_id(within(tree)) == "machine"


def test_a_service_with_limits_of_its_own_is_a_host_by_itself(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "0::/system.slice/limpet@1.service")
    tree.group2("system.slice/limpet@1.service", memory_max=GIB)
    assert name(tree) == "web-2:limpet-1.service"


def test_a_container_is_named_by_boot_and_limiting_group_and_not_by_its_name(
    tree: MachineTree,
) -> None:
    container(tree)
    tree.group2("", memory_max=GIB)
    inode = (tree.root / "sys/fs/cgroup").stat().st_ino
    assert name(tree, host_name="3f9a6c1d20b7") == f"boot-0123456789ab-{inode}"
    assert capacity_id(within(tree)) == f"cgroup-{inode}"


def test_containers_without_limits_share_the_machine(tree: MachineTree) -> None:
    container(tree)
    assert name(tree, host_name="3f9a6c1d20b7") == name(tree, host_name="other")
    assert name(tree) == "boot-0123456789ab"
    assert capacity_id(within(tree)) == "machine"


def test_containers_with_limits_of_their_own_are_two_hosts(tree: MachineTree) -> None:
    container(tree)
    found = set()
    for each in ("a", "b"):
        tree.write("proc/self/cgroup", f"0::/pod/{each}")
        tree.group2(f"pod/{each}", cpu_max="100000 100000")
        found.add((name(tree), capacity_id(within(tree))))
    assert len({first for first, _ in found}) == len({second for _, second in found}) == 2


def test_containers_below_one_limit_are_one_host(tree: MachineTree) -> None:
    container(tree)
    tree.group2("pod", memory_max=GIB)
    found = set()
    for each in ("a", "b"):
        tree.write("proc/self/cgroup", f"0::/pod/{each}")
        tree.group2(f"pod/{each}", memory_max="max")
        found.add((name(tree), capacity_id(within(tree))))
    assert len(found) == 1


def test_a_limit_of_its_own_counts_more_than_one_above(tree: MachineTree) -> None:
    tree.group2("pod", memory_max=GIB)
    tree.write("proc/self/cgroup", "0::/pod/a")
    tree.group2("pod/a", cpu_max="100000 100000")
    assert name(tree) == "web-2:a"


def test_groups_of_version_1_are_told_apart_by_controller(tree: MachineTree) -> None:
    container(tree)
    tree.write("proc/self/cgroup", "3:memory:/")
    tree.group1("memory", "", memory_limit_in_bytes=GIB)
    inode = (tree.root / "sys/fs/cgroup/memory").stat().st_ino
    assert capacity_id(within(tree)) == f"cgroup-memory-{inode}"


def test_a_container_is_known_by_its_marks_where_namespaces_are_hidden(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert not in_container(root, {})
    assert in_container(root, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    (tmp_path / ".dockerenv").touch()
    assert in_container(root, {})


def test_a_host_name_with_odd_characters_becomes_a_name(tree: MachineTree) -> None:
    assert name(tree, host_name="-web 2ü-") == "web-2--"
    assert name(tree, host_name="") == "host"
