"""A host is measured against the limits around it; what cannot be known is said, not guessed."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from machine_tree import GIB, MachineTree, cpu_stat, pressure

from limpet.domain.reading import Reading
from limpet.gate.measure.cgroup import cpu_list, groups_of_self
from limpet.gate.measure.monitor import Monitor
from limpet.testing.clock import FakeClock

SECOND = 1_000_000


@pytest.fixture
def tree(tmp_path: Path) -> MachineTree:
    tree = MachineTree(tmp_path)
    tree.machine()
    return tree


def after_a_second(tree: MachineTree, change: Callable[[], object] | None = None) -> Reading:
    """A reading of the second in which `change` happened; otherwise an idle one."""
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tree), disk=str(tree), cpus=4)
    try:
        (change or (lambda: tree.ticks(0, 100)))()
        clock.advance(timedelta(seconds=1))
        return monitor.poll()
    finally:
        monitor.close()


def test_without_a_limit_the_machine_is_measured(tree: MachineTree) -> None:
    reading = after_a_second(tree, lambda: tree.ticks(50, 50))
    assert reading.source == "host"
    assert reading.cores == 4
    assert reading.cpu_raw == 100  # half of the time on two of four
    assert (reading.memory_total, reading.memory_free) == (8 * GIB, 6 * GIB)
    assert reading.pressure.cpu == reading.pressure.memory == reading.pressure.io == 1.5
    assert reading.load == 0.75
    assert reading.throttled is None


def test_a_cpu_that_waits_for_a_disk_is_not_busy(tree: MachineTree) -> None:
    tree.write("proc/stat", "cpu  100 0 0 100 100 0 0 0 0 0")
    reading = after_a_second(
        tree, lambda: tree.write("proc/stat", "cpu  110 10 20 140 170 5 5 50 10 0")
    )
    # 100 of 210: user, nice, system, interrupts, and what the hypervisor gave to others.
    assert reading.cpu_raw == pytest.approx(400 * 100 / 210, abs=0.01)


def test_a_group_of_version_2_without_a_limit_is_the_machine(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "0::/system.slice/limpet.service")
    tree.group2("system.slice/limpet.service", cpu_max="max 100000", memory_max="max")
    reading = after_a_second(tree, lambda: tree.ticks(100, 0))
    assert (reading.source, reading.cores, reading.cpu_raw) == ("host", 4, 200)


def limited(tree: MachineTree) -> None:
    tree.group2(
        "",
        cpu_max="150000 100000",
        cpu_stat=cpu_stat(10 * SECOND),
        memory_max=2 * GIB,
        memory_high="max",
        memory_current=1536 << 20,
        memory_stat=f"anon 1\ninactive_file {256 << 20}\nactive_file {256 << 20}",
        cpu_pressure=pressure(7),
        memory_pressure=pressure(8),
        io_pressure=pressure(9),
    )


def test_in_a_container_of_version_2_its_limits_count(tree: MachineTree) -> None:
    limited(tree)
    reading = after_a_second(
        tree, lambda: tree.group2("", cpu_stat=cpu_stat(10 * SECOND + 750_000))
    )
    assert reading.source == "cgroup v2 /: cpu 1.5, memory 2 GiB"
    assert reading.cores == 1.5
    assert reading.cpu_raw == 75
    assert reading.cpu_busy == 50
    assert reading.memory_total == 2 * GIB
    assert reading.memory_free == GIB  # what only caches files counts as free
    assert (reading.pressure.cpu, reading.pressure.memory, reading.pressure.io) == (7, 8, 9)


def test_a_throttled_group_says_in_how_many_periods(tree: MachineTree) -> None:
    limited(tree)
    tree.group2("", cpu_stat=cpu_stat(0, periods=100, throttled=50))
    reading = after_a_second(
        tree, lambda: tree.group2("", cpu_stat=cpu_stat(900_000, periods=110, throttled=54))
    )
    assert reading.throttled == 40
    assert reading.cpu_raw == 90


def test_the_tightest_limit_above_counts_and_what_others_use_there(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "0::/pod/box")
    tree.group2(
        "pod",
        cpu_max="200000 100000",
        cpu_stat=cpu_stat(0),
        memory_max=3 * GIB,
        memory_current=2 * GIB,
        memory_stat="inactive_file 0",
    )
    tree.group2(
        "pod/box",
        cpu_max="300000 100000",
        cpu_stat=cpu_stat(0),
        memory_max=2 * GIB,
        memory_current=GIB // 2,
        memory_stat="inactive_file 0",
    )
    reading = after_a_second(tree, lambda: tree.group2("pod", cpu_stat=cpu_stat(1_900_000)))
    assert reading.cores == 2
    assert reading.cpu_raw == 190
    assert (reading.memory_total, reading.memory_free) == (2 * GIB, GIB)
    assert reading.source.startswith("cgroup v2 /pod: cpu 2, cgroup v2 /pod/box: memory 2 GiB")


def test_a_limit_above_what_the_machine_has_bounds_nothing(tree: MachineTree) -> None:
    tree.group2("", cpu_max="800000 100000", memory_max=64 * GIB, memory_current=GIB)
    assert after_a_second(tree).source == "host"


def test_memory_high_holds_up_like_a_limit(tree: MachineTree) -> None:
    limited(tree)
    tree.group2("", memory_high=GIB)
    assert after_a_second(tree).memory_total == GIB


def test_a_machine_with_less_than_the_limit_leaves_is_believed(tree: MachineTree) -> None:
    limited(tree)
    tree.machine(available=GIB // 4)
    reading = after_a_second(tree)
    assert reading.memory_free == GIB // 4
    assert "memory of the machine is tighter" in reading.source


def version_1(tree: MachineTree, path: str = "") -> None:
    tree.group1("cpu", path, cpu_cfs_quota_us=50_000, cpu_cfs_period_us=100_000)
    tree.group1("cpu", path, cpu_stat="nr_periods 100\nnr_throttled 10\nthrottled_time 5")
    tree.group1("cpuacct", path, cpuacct_usage=5_000_000_000)
    tree.group1(
        "memory",
        path,
        memory_limit_in_bytes=GIB,
        memory_usage_in_bytes=GIB // 2,
        memory_stat=f"total_inactive_file {GIB // 8}\ntotal_active_file {GIB // 8}",
    )


def test_in_a_container_of_version_1_its_limits_count(tree: MachineTree) -> None:
    """As Docker shows it: the path is the host's, and the group is where the mount begins."""
    tree.write("proc/self/cgroup", "3:memory:/docker/a1\n2:cpuacct:/docker/a1\n1:cpu:/docker/a1")
    mounts = [
        f"{number} 1 0:{number} /docker/a1 /sys/fs/cgroup/{name} ro - cgroup cgroup rw,{name}"
        for number, name in enumerate(("memory", "cpuacct", "cpu"), 30)
    ]
    tree.write("proc/self/mountinfo", "\n".join(mounts))
    version_1(tree)

    def use() -> None:
        tree.group1("cpuacct", "", cpuacct_usage=5_250_000_000)
        tree.group1("cpu", "", cpu_stat="nr_periods 110\nnr_throttled 15\nthrottled_time 5")

    reading = after_a_second(tree, use)
    assert reading.source == (
        "cgroup v1 /docker/a1: cpu 0.5, memory 1 GiB; pressure of the machine"
    )
    assert (reading.cores, reading.cpu_raw, reading.throttled) == (0.5, 25, 50)
    assert (reading.memory_total, reading.memory_free) == (GIB, GIB * 3 // 4)


def test_version_1_whose_use_is_counted_elsewhere_still_tells_that_it_is_held_up(
    tree: MachineTree,
) -> None:
    """As where each controller has a tree of its own, and nobody made the group in all of them."""
    tree.write("proc/self/cgroup", "2:cpuacct:/\n1:cpu:/jobs")
    tree.group1("cpuacct", "", cpuacct_usage=0)
    limit = {"cpu_cfs_quota_us": 50_000, "cpu_cfs_period_us": 100_000}
    tree.group1("cpu", "jobs", **limit, cpu_stat="nr_periods 100\nnr_throttled 10")

    def use() -> None:
        tree.group1("cpu", "jobs", cpu_stat="nr_periods 110\nnr_throttled 19")

    reading = after_a_second(tree, use)
    assert (reading.cores, reading.cpu_raw, reading.throttled) == (0.5, None, 90)
    assert "CPU not known: /jobs does not show what it uses" in reading.source


def test_version_1_on_a_host_has_its_groups_below_the_mount(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "3:memory:/jobs\n2:cpu,cpuacct:/jobs\n0::/")
    mount = "30 1 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
    tree.write("proc/self/mountinfo", mount)
    for file, text in (("cpu.cfs_quota_us", 100_000), ("cpu.cfs_period_us", 100_000)):
        tree.write(f"sys/fs/cgroup/cpu,cpuacct/jobs/{file}", text)
    tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpuacct.usage", 0)
    reading = after_a_second(
        tree, lambda: tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpuacct.usage", 600_000_000)
    )
    assert reading.source == "cgroup v1 /jobs: cpu 1; pressure of the machine"
    assert reading.cpu_raw == 60


def test_version_1_without_a_limit_is_the_machine(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "3:memory:/\n1:cpu:/")
    tree.group1("memory", "", memory_limit_in_bytes=9223372036854771712)
    tree.group1("cpu", "", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100_000)
    assert after_a_second(tree).source == "host"


def test_no_limit_is_no_limit_though_the_machine_does_not_tell_its_memory(
    tree: MachineTree,
) -> None:
    tree.remove("proc/meminfo")
    tree.write("proc/self/cgroup", "3:memory:/")
    tree.group1("memory", "", memory_limit_in_bytes=9223372036854771712)
    assert after_a_second(tree).memory_total is None


def test_version_1_tells_of_a_limit_above_what_a_container_sees(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "3:memory:/")
    tree.group1(
        "memory",
        "",
        memory_limit_in_bytes=9223372036854771712,
        memory_usage_in_bytes=0,
        memory_stat=f"hierarchical_memory_limit {GIB}\ntotal_inactive_file 0",
    )
    assert after_a_second(tree).memory_total == GIB


def test_a_set_of_cpus_bounds_and_only_those_are_measured(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "0::/pod/box")
    for group, cpus in (("", "0-3"), ("/pod", "1,3"), ("/pod/box", "1,3")):
        tree.write(f"sys/fs/cgroup{group}/cpuset.cpus.effective", cpus)
    reading = after_a_second(tree, lambda: tree.ticks(80, 20))
    assert (reading.cores, reading.cpu_raw) == (2, 160)
    assert reading.source.startswith("cgroup v2 /pod: some CPUs only")


@pytest.mark.parametrize(
    ("text", "cpus"),
    [(b"0-2,5\n", {0, 1, 2, 5}), (b"7", {7}), (b"", None), (b"3-1", None), (b"a-b", None)],
)
def test_a_list_of_cpus_is_read_or_refused(text: bytes, cpus: set[int] | None) -> None:
    assert cpu_list(text) == cpus


def test_a_limit_whose_use_is_not_told_leaves_the_use_unknown(tree: MachineTree) -> None:
    limited(tree)
    for file in ("cpu.stat", "memory.current"):
        tree.remove(f"sys/fs/cgroup/{file}")
    reading = after_a_second(tree)
    assert (reading.cores, reading.memory_total) == (1.5, 2 * GIB)
    assert reading.cpu_raw is reading.cpu_ema is reading.memory_free is None
    assert "CPU not known: / does not show what it uses" in reading.source
    assert "memory not known: / does not show what it uses" in reading.source


def test_without_memory_stat_cached_files_count_as_used_and_it_says_so(tree: MachineTree) -> None:
    limited(tree)
    tree.remove("sys/fs/cgroup/memory.stat")
    reading = after_a_second(tree)
    assert reading.memory_free == GIB // 2
    assert "cached files counted as used memory in /" in reading.source


def test_a_kernel_that_tells_no_pressure_is_said_to(tree: MachineTree) -> None:
    for resource in ("cpu", "memory", "io"):
        tree.remove(f"proc/pressure/{resource}")
    reading = after_a_second(tree)
    assert reading.pressure.memory is None
    assert reading.source == (
        "host; pressure not known: the kernel does not report it for cpu, memory, io"
    )


def test_pressure_that_a_group_does_not_tell_is_the_machines(tree: MachineTree) -> None:
    limited(tree)
    tree.remove("sys/fs/cgroup/memory.pressure")
    reading = after_a_second(tree)
    assert (reading.pressure.cpu, reading.pressure.memory) == (7, 1.5)
    assert reading.source.endswith("; pressure of the machine")


def test_nothing_at_all_is_read_without_an_error(tmp_path: Path) -> None:
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tmp_path), disk="/no/such", cpus=4)
    clock.advance(timedelta(seconds=1))
    reading = monitor.poll()
    assert reading.cores == 4
    assert reading.cpu_raw is reading.memory_total is reading.memory_free is reading.load is None
    assert reading.disk_free is None
    for unknown in ("CPU not known", "memory not known", "pressure not known", "disk not known"):
        assert unknown in reading.source


@pytest.mark.parametrize("nonsense", ["", "max", "-1", "1e9", "0 0", "\x00", "100000 0", "Zürich"])
def test_odd_files_are_never_an_error(tree: MachineTree, nonsense: str) -> None:
    tree.write("proc/self/cgroup", "0::/a\nnonsense\n3:memory")
    tree.write("proc/self/mountinfo", nonsense)
    for name in ("cpu.max", "cpu.stat", "memory.max", "memory.current", "memory.stat"):
        tree.write(f"sys/fs/cgroup/a/{name}", nonsense)
    for name in ("stat", "meminfo", "loadavg", "pressure/cpu", "42/stat"):
        tree.write(f"proc/{name}", nonsense)
    assert after_a_second(tree, lambda: None).cores == 4


def test_a_path_outside_what_is_shown_is_not_followed(tree: MachineTree) -> None:
    tree.write("proc/self/cgroup", "0::/../other")
    tree.write("sys/fs/other/cpu.max", "100000 100000")
    limited(tree)
    assert groups_of_self(str(tree)).cpu[0].group.name == "/"


def test_a_limit_that_changes_is_seen(tree: MachineTree) -> None:
    limited(tree)
    clock = FakeClock()
    monitor = Monitor("web-2", clock, root=str(tree), disk=str(tree), cpus=4)
    tree.group2("", cpu_max="300000 100000", memory_max="max")
    clock.advance(timedelta(seconds=1))
    reading = monitor.poll()
    assert (reading.cores, reading.memory_total) == (3, 8 * GIB)
    monitor.close()
