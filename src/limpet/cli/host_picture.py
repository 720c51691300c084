"""What is shown of hosts: bars in a table, one host in some lines, or in one; does no I/O."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from limpet.cli.style import Column, Line, Span, Style, bar, columns, fitted
from limpet.domain.assessment import UNBOUNDED
from limpet.domain.duration import spoken
from limpet.domain.size import in_unit, spoken_size
from limpet.ops.host_answer import GateStatus, HostAnswer, PermitAnswer, UnmeasuredHost

_BAR_CELLS = 10
# From here on to the threshold a bar is a warning.
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


def hosts_lines(hosts: Sequence[HostAnswer], width: int) -> list[Line]:
    """A table of all hosts, with bars."""
    rows = [
        [
            (each.server, Style.PLAIN),
            cpu_span(each),
            memory_span(each),
            _pressure(each),
            permits_span(each),
            (each.reserved_for or "-", Style.WARN if each.reserved_for else Style.FAINT),
            (each.monitor or "none", Style.PLAIN if each.monitor else Style.WARN),
            ("-" if each.age_seconds is None else age_text(each.age_seconds), Style.FAINT),
            _state(each),
        ]
        for each in hosts
    ]
    lines = columns(_HOSTS, rows, width, indent=0)
    # Why not is a sentence, for which no column is wide enough.
    lines += [((f"  {each.reason}", Style.BAD),) for each in hosts if each.reason]
    return [fitted(line, width) for line in lines]


def status_lines(status: GateStatus, width: int) -> list[Line]:
    """One host, a line for each thing that counts."""
    state: Span = ("ready", Style.GOOD) if status.ready else ("not ready", Style.BAD)
    lines: list[Line] = [
        ((f"{status.server}: ", Style.HEAD), state),
        *([((f"  {status.reason}", Style.BAD),)] if status.reason else []),
        *([((f"  {status.warning}", Style.WARN),)] if status.warning else []),
        (("  CPU       ", Style.FAINT), cpu_span(status), cpu_beside(status)),
        (("  memory    ", Style.FAINT), memory_span(status)),
        (("  pressure  ", Style.FAINT), *pressure_spans(status)),
        (("  room      ", Style.FAINT), room_span(status)),
        (("  permits   ", Style.FAINT), permits_span(status)),
        *(
            ((f"            {each.what}: {weight_text(each)}", Style.PLAIN),)
            for each in status.permits
        ),
        (("  source    ", Style.FAINT), (status.source, Style.PLAIN)),
    ]
    return [fitted(line, width) for line in lines]


def status_text(status: GateStatus) -> str:
    """One host in one line."""
    word = "ready" if status.ready else "not ready"
    parts = [
        f"{status.server}: {word}",
        f"CPU {percent(status.cpu_effective_percent)} of {status.threshold.cpu_percent:g} %",
        f"memory {percent(status.memory.used_percent)}",
        f"permits {len(status.permits)}",
    ]
    more = [text for text in (status.reason, status.warning) if text]
    return ", ".join([*parts, *more])


def cpu_span(host: GateStatus | UnmeasuredHost) -> Span:
    """The CPU, as a bar beside its threshold."""
    if isinstance(host, UnmeasuredHost) or host.cpu_effective_percent is None:
        return "unknown", Style.FAINT
    return _share(host.cpu_effective_percent, host.threshold.cpu_percent)


def memory_span(host: GateStatus | UnmeasuredHost) -> Span:
    """The memory, the same."""
    if isinstance(host, UnmeasuredHost):
        return "unknown", Style.FAINT
    memory = host.memory
    if memory.used_percent is None or memory.total_bytes is None or memory.free_bytes is None:
        return "unknown", Style.FAINT
    text, style = _share(memory.used_percent, host.threshold.memory_percent)
    used, _ = in_unit(memory.total_bytes - memory.free_bytes, memory.total_bytes)
    return f"{text}  {used}/{spoken_size(memory.total_bytes)}", style


def _share(percent: float, threshold: float) -> Span:
    style = Style.GOOD if percent < threshold * _NEAR else Style.WARN
    style = Style.BAD if percent >= threshold else style
    return f"{bar(percent / 100, _BAR_CELLS)} {int(percent):3}/{threshold:g} %", style


def _pressure(host: HostAnswer) -> Span:
    if isinstance(host, UnmeasuredHost) or host.pressure.memory_percent is None:
        return "-", Style.FAINT
    value, most = host.pressure.memory_percent, host.threshold.pressure_percent
    return f"{value:.0f} %", Style.BAD if value >= most else Style.PLAIN


def cpu_beside(host: GateStatus) -> Span:
    """What the CPU is made of."""
    text = f"  now {percent(host.cpu_raw_percent)}, smoothed {percent(host.cpu_ema_percent)}"
    if host.cpu_others_percent is not None:
        text += f", others than permits {percent(host.cpu_others_percent)}"
    text += f", {_cores(host.cores)}"
    if host.throttled_percent is not None:
        text += f", throttled {percent(host.throttled_percent)}"
    return text, Style.FAINT


def pressure_spans(host: GateStatus) -> Iterator[Span]:
    """All three; those that keep work off beside their thresholds."""
    pressure, threshold = host.pressure, host.threshold
    for word, value, most in (
        ("CPU", pressure.cpu_percent, None),
        (", memory", pressure.memory_percent, threshold.pressure_percent),
        (", disk", pressure.io_percent, threshold.io_percent),
    ):
        told = percent(value) if most is None or value is None else f"{value:.0f}/{most:g} %"
        too_much = value is not None and most is not None and value >= most
        yield f"{word} {told}", Style.BAD if too_much else Style.PLAIN


def permits_span(host: GateStatus | UnmeasuredHost) -> Span:
    """How many permits, and what they take together."""
    permits = host.permits
    if not permits:
        return "0", Style.FAINT
    room = None if isinstance(host, UnmeasuredHost) else host.room
    cores = f"{sum(each.cores for each in permits):g}"
    told = [f"{cores} cores" if room is None else f"{cores} of {room.cores:g} cores"]
    if memory := sum(each.memory_bytes for each in permits):
        most = None if room is None else room.memory_bytes
        of = "" if most is None or most >= UNBOUNDED else f" of {spoken_size(most)}"
        told.append(spoken_size(memory) + of)
    told += ["heavy"] if any(each.heavy for each in permits) else []
    return f"{len(permits)}: {', '.join(told)}", Style.PLAIN


def room_span(status: GateStatus) -> Span:
    """What one more may take there."""
    left = status.left
    told = [_cores(left.cores)]
    told += [] if left.memory_bytes is None else [spoken_size(left.memory_bytes)]
    return ("for nothing", Style.BAD) if not status.ready else (" and ".join(told), Style.GOOD)


def _cores(number: float) -> str:
    return f"{number:g} core" + ("" if number == 1 else "s")


def weight_text(permit: PermitAnswer) -> str:
    """What one permit takes."""
    told = [_cores(permit.cores)] if permit.cores else []
    told += [spoken_size(permit.memory_bytes)] if permit.memory_bytes else []
    told += ["heavy"] if permit.heavy else []
    return ", ".join(told)


def _state(host: HostAnswer) -> Span:
    if host.ready is None:
        return "not measured", Style.WARN
    if host.ready:
        return "ready", Style.GOOD
    return "not ready", Style.BAD


def percent(value: float | None) -> str:
    """A share in words."""
    # Rounded down, so that what is below a threshold never looks as if it had reached it.
    return "unknown" if value is None else f"{int(value)} %"


def age_text(seconds: float) -> str:
    """How old something is."""
    return f"{seconds:.1f}s" if seconds < 10 else spoken(timedelta(seconds=int(seconds)))
