"""The pictures of hosts: bars in a table, one host in several lines or in one; does no I/O."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limpet.cli.style import Column, Row, Span, Style, bar, beside, left_out, line, table, text
from limpet.domain.assessment import UNBOUNDED
from limpet.domain.duration import spoken
from limpet.domain.size import in_unit, spoken_size
from limpet.ops.host_answer import GateStatus, HostAnswer, MeasuredHost, PermitAnswer

_BAR_CELLS = 10
# A bar is a warning from this part of the threshold on.
_NEAR = 0.85

_HOSTS = (
    Column("SERVER", 10, least=8),
    Column("CPU", 9),
    Column("MEMORY", 7),
    Column("PRESSURE", 4, right=True),
    Column("PERMITS", 6),
    Column("RESERVED FOR", 5, least=12),
    Column("MONITOR", 2, least=8),
    Column("AGE", 3, right=True),
    Column("STATE", 8, least=12),
)


def hosts_picture(hosts: Sequence[HostAnswer], width: int | None) -> list[RenderableType]:
    """A table of all hosts, with bars."""
    rows: list[Row] = [
        [
            text(host.server),
            cpu_share(host),
            memory_share(host),
            _pressure(host),
            permits_text(host),
            text(host.reserved_for or "-", Style.WARN if host.reserved_for else Style.FAINT),
            text(host.monitor or "none", Style.PLAIN if host.monitor else Style.WARN),
            text("-" if host.age_seconds is None else age_text(host.age_seconds), Style.FAINT),
            text(*state_of(host)),
        ]
        for host in hosts
    ]
    # A reason is a sentence, for which no column is wide enough.
    reasons = [text(f"  {host.reason}", Style.BAD) for host in hosts if host.reason]
    return [table(_HOSTS, rows, width), *left_out(_HOSTS, rows, width), *reasons]


def status_picture(status: GateStatus) -> list[RenderableType]:
    """One host, a line for each thing that the gate looks at."""
    permits = [
        labelled("", text(f"{permit.what}: {weight_text(permit)}")) for permit in status.permits
    ]
    return [
        line((f"{status.server}: ", Style.HEAD), state_of(status)),
        *([text(f"  {status.reason}", Style.BAD)] if status.reason else []),
        *([text(f"  {status.warning}", Style.WARN)] if status.warning else []),
        labelled("CPU", cpu_share(status), cpu_beside(status)),
        labelled("memory", memory_share(status)),
        labelled("pressure", pressure_text(status)),
        labelled("room", _room(status)),
        labelled("permits", permits_text(status)),
        *permits,
        labelled("source", text(status.source)),
    ]


def labelled(label: str, *parts: RenderableType) -> Table:
    """A line that begins with a label."""
    return beside(text(f"  {label:<10}", Style.FAINT), *parts)


def status_text(status: GateStatus) -> str:
    """One host in one line."""
    word = "ready" if status.ready else "not ready"
    parts = [
        f"{status.server}: {word}",
        f"CPU {percent(status.cpu_effective_percent)} of {status.threshold.cpu_percent:g} %",
        f"memory {percent(status.memory.used_percent)}",
        f"permits {len(status.permits)}",
    ]
    more = [word for word in (status.reason, status.warning) if word]
    return ", ".join([*parts, *more])


def cpu_share(host: HostAnswer | GateStatus) -> RenderableType:
    """The CPU, as a bar beside its threshold."""
    if not isinstance(host, GateStatus) or host.cpu_effective_percent is None:
        return text("unknown", Style.FAINT)
    return _share(host.cpu_effective_percent, host.threshold.cpu_percent)


def memory_share(host: HostAnswer | GateStatus) -> RenderableType:
    """The memory, as a bar beside its threshold."""
    if not isinstance(host, GateStatus) or host.memory.used_percent is None:
        return text("unknown", Style.FAINT)
    total, free = host.memory.total_bytes, host.memory.free_bytes
    used = ""
    if total is not None and free is not None:
        used = f"  {in_unit(total - free, total)[0]}/{spoken_size(total)}"
    return _share(host.memory.used_percent, host.threshold.memory_percent, used)


def _share(percent: float, threshold: float, more: str = "") -> Table:
    style = Style.GOOD if percent < threshold * _NEAR else Style.WARN
    style = Style.BAD if percent >= threshold else style
    words = text(f" {int(percent):3}/{threshold:g} %{more}", style)
    return beside(bar(percent / 100, _BAR_CELLS, style), words)


def _pressure(host: HostAnswer) -> Text:
    value = host.pressure.memory_percent if isinstance(host, MeasuredHost) else None
    if value is None or not isinstance(host, MeasuredHost):
        return text("-", Style.FAINT)
    too_much = value >= host.threshold.pressure_percent
    return text(f"{value:.0f} %", Style.BAD if too_much else Style.PLAIN)


def cpu_beside(host: GateStatus) -> Text:
    """The figures behind the CPU bar."""
    words = f"  now {percent(host.cpu_raw_percent)}, smoothed {percent(host.cpu_ema_percent)}"
    if host.cpu_others_percent is not None:
        words += f", others than permits {percent(host.cpu_others_percent)}"
    words += f", {_cores(host.cores)}"
    if host.throttled_percent is not None:
        words += f", throttled {percent(host.throttled_percent)}"
    return line((words, Style.FAINT), wraps=True)


def pressure_text(host: GateStatus) -> Text:
    """The pressure of CPU, memory and disk, beside the thresholds of those that hold work back."""
    return line(*_pressures(host))


def _pressures(host: GateStatus) -> Iterator[Span]:
    limits = host.threshold
    for place, (name, value, most) in enumerate(
        (
            ("CPU", host.pressure.cpu_percent, None),
            ("memory", host.pressure.memory_percent, limits.pressure_percent),
            ("disk", host.pressure.io_percent, limits.io_percent),
        )
    ):
        words = percent(value) if most is None or value is None else f"{value:.0f}/{most:g} %"
        too_much = value is not None and most is not None and value >= most
        yield f"{', ' if place else ''}{name} {words}", Style.BAD if too_much else Style.PLAIN


def permits_text(host: HostAnswer | GateStatus) -> Text:
    """How many permits, and what they take together."""
    if not host.permits:
        return text(0, Style.FAINT)
    room = host.room if isinstance(host, GateStatus) else None
    of = "" if room is None else f" of {room.cores:g}"
    parts = [f"{sum(permit.cores for permit in host.permits):g}{of} cores"]
    if memory := sum(permit.memory_bytes for permit in host.permits):
        most = None if room is None else room.memory_bytes
        of = "" if most is None or most >= UNBOUNDED else f" of {spoken_size(most)}"
        parts.append(spoken_size(memory) + of)
    parts += ["heavy"] if any(permit.heavy for permit in host.permits) else []
    return text(f"{len(host.permits)}: {', '.join(parts)}")


def _room(status: GateStatus) -> Text:
    """What one more job may take on the host."""
    if not status.ready:
        return text("for nothing", Style.BAD)
    left = status.left
    parts = [_cores(left.cores)]
    parts += [] if left.memory_bytes is None else [spoken_size(left.memory_bytes)]
    return text(" and ".join(parts), Style.GOOD)


def _cores(number: float) -> str:
    return f"{number:g} core" + ("" if number == 1 else "s")


def weight_text(permit: PermitAnswer) -> str:
    """What one permit takes."""
    parts = [_cores(permit.cores)] if permit.cores else []
    parts += [spoken_size(permit.memory_bytes)] if permit.memory_bytes else []
    parts += ["heavy"] if permit.heavy else []
    return ", ".join(parts)


def state_of(host: HostAnswer | GateStatus) -> Span:
    """Whether weighted work may begin on the host."""
    if host.ready is None:
        return "not measured", Style.WARN
    return ("ready", Style.GOOD) if host.ready else ("not ready", Style.BAD)


def percent(value: float | None) -> str:
    """A share in words."""
    # Rounded down, so that a value below a threshold never looks as if it had reached it.
    return "unknown" if value is None else f"{int(value)} %"


def age_text(seconds: float) -> str:
    """How old something is."""
    return f"{seconds:.1f}s" if seconds < 10 else spoken(timedelta(seconds=int(seconds)))
