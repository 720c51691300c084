"""When a schedule ticks: computed from its timing alone, so that all workers get the same moments.

A cron line is read by cronsim, with the rules of Debian's cron. If the line names hours, a local
time that the clocks skip fires right after the skip, and one that comes twice fires the first time.
A line that names no hours (`*`) follows the time that passes, whatever the clocks show.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.schedule import Timing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SHORTEST = timedelta(seconds=1)
_FIELDS = 5
# Longer than any change to or from summer time.
_SHIFT = timedelta(hours=3)
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def timing_of(
    *,
    every: Duration | None = None,
    cron: str | None = None,
    tz: str | None = None,
    jitter: Duration = 0,
) -> Timing:
    """Read a timing as a user wrote it, or refuse it with a sentence."""
    spread = microseconds(duration(jitter, what="jitter"))
    if (every is None) == (cron is None):
        raise InvalidOption(
            'a schedule ticks by either every= or cron=; write every="15m" or cron="0 3 * * *".'
        )
    if every is not None:
        if tz is not None:
            raise InvalidOption("tz= belongs to cron=; every= is the same in all time zones.")
        period = duration(every, what="every")
        if period < _SHORTEST:
            raise InvalidOption(f"every is {every!r}; a schedule ticks at most once a second.")
        if spread >= microseconds(period):
            raise InvalidOption(
                f"jitter is {jitter!r} and every is {every!r}; a tick delayed by that much would "
                f"meet the next one. Make the jitter shorter than every."
            )
        return Timing(every=microseconds(period), jitter=spread)
    assert cron is not None
    timing = Timing(cron=_line(cron), tz=_zone_name(tz), jitter=spread)
    if next_after(timing, microseconds(datetime.now(UTC) - _EPOCH)) is None:
        raise _impossible(cron, "there is no such day")
    return timing


def check_timing(timing: Timing) -> None:
    """Refuse, with a sentence, a timing that `timing_of` cannot have made."""
    jitter = timedelta(microseconds=timing.jitter)
    if timing.cron is not None:
        timing_of(cron=timing.cron, tz=timing.tz, jitter=jitter)
    else:
        timing_of(every=timedelta(microseconds=timing.every or 0), jitter=jitter)


def _line(cron: str) -> str:
    if not isinstance(cron, str):
        raise InvalidOption(f'cron is {cron!r}; write a line such as "0 3 * * *".')
    line = " ".join(_NAMES.get(cron.strip().lower(), cron).split())
    if len(line.split()) != _FIELDS:
        raise _impossible(cron, "it has five fields: minute, hour, day, month, day of the week")
    from cronsim import CronSim, CronSimError

    try:
        CronSim(line, _EPOCH)
    except CronSimError as error:
        raise _impossible(cron, str(error).replace("Bad", "there is no such")) from None
    return line


def _impossible(cron: object, why: str) -> InvalidOption:
    return InvalidOption(
        f'the cron line {cron!r} cannot be used: {why}. Write for example "0 3 * * *" for three '
        f'o\'clock every night, or "*/15 9-17 * * MON-FRI".'
    )


def _zone_name(tz: str | None) -> str:
    name = "UTC" if tz is None else tz
    try:
        zone_of(name)
    except (LookupError, ValueError, TypeError, OSError):
        raise InvalidOption(
            f'there is no time zone {tz!r} here; write a name such as "Europe/Berlin" (a system '
            f"without time zones needs the package tzdata)."
        ) from None
    return name


@lru_cache(64)
def zone_of(name: str) -> tzinfo:
    """The time zone of that name; raises if this machine does not know it."""
    from zoneinfo import ZoneInfo

    return UTC if name == "UTC" else ZoneInfo(name)


def next_after(timing: Timing, after: int, since: int | None = None) -> int | None:
    """The first tick after the moment `after`; None if there is none any more.

    `since`: an earlier tick, from which `every` counts; without one it counts from `after`.
    """
    if timing.every is not None:
        first = after if since is None else since
        return first + ((after - first) // timing.every + 1) * timing.every
    moment = _moment(after)
    for tick in _walk(timing, moment):
        if tick > moment:
            return _wall(tick)
    return None


def last_until(timing: Timing, until: int, since: int) -> int:
    """The last tick not after the moment `until`; `since` is an earlier tick, or the last one."""
    if timing.every is not None:
        return since + (until - since) // timing.every * timing.every
    moment = _moment(until)
    # From a little later, because an hour that comes twice reads like the one before it.
    for tick in _walk(timing, moment + _SHIFT, back=True):
        if tick <= moment:
            return max(since, _wall(tick))
    return since


def _walk(timing: Timing, start: datetime, *, back: bool = False) -> Iterator[datetime]:
    from cronsim import CronSim

    assert timing.cron is not None
    return CronSim(_by_name(timing.cron), start.astimezone(zone_of(timing.tz)), reverse=back)


def _by_name(line: str) -> str:
    """The line with leading stars written out, unless its hour is `*`.

    To cronsim a leading star, as in `*/15`, means that the line names no hours.
    """
    minute, hour, *rest = line.split()
    if hour != "*":
        minute = "0-59" + minute[1:] if minute.startswith("*") else minute
        hour = "0-23" + hour[1:] if hour.startswith("*") else hour
    return " ".join((minute, hour, *rest))


def _moment(wall: int) -> datetime:
    return _EPOCH + wall * _MICROSECOND


def _wall(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
