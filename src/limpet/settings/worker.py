"""The settings of a worker: arguments, `LIMPET_*` variables, or the table `[worker]`."""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, assert_never, get_type_hints

from limpet.domain.errors import InvalidOption
from limpet.domain.worker_settings import Setting, SettingKind, WorkerSettings
from limpet.settings import values
from limpet.settings.file import FILE, WORKER, current_folder, lines_of, refuse_unknown

_METAVARS: Final = {
    SettingKind.NAME: "NAME",
    SettingKind.QUEUES: "NAME[=N]",
    SettingKind.COUNT: "N",
    SettingKind.TIME: "TIME",
    SettingKind.SIZE: "SIZE",
    SettingKind.PERCENT: "PERCENT",
    SettingKind.SHARE: "SHARE",
}


class WorkerOption(NamedTuple):
    """A setting of a worker as an option of its command.

    `flags`: for example `--lease`. `metavar`: the name of its value in the help; None for a switch.
    `repeats`: whether it may be given several times.
    """

    name: str
    flags: tuple[str, ...]
    metavar: str | None
    help: str
    repeats: bool


@cache
def declared() -> dict[str, Setting]:
    """Every setting of a worker by its name, as `WorkerSettings` declares it."""
    hints = get_type_hints(WorkerSettings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def worker_options() -> list[WorkerOption]:
    """The options of `limpet worker` that are settings, in the order in which help shows them."""
    return [
        WorkerOption(
            name,
            setting.flags or (f"--{name.replace('_', '-')}",),
            _METAVARS.get(setting.kind),
            _help_of(name, setting),
            repeats=setting.kind is SettingKind.QUEUES,
        )
        for name, setting in declared().items()
        if setting.flags != ()
    ]


def default_of(name: str) -> str:
    """The default of a setting in words; empty if the default is no limit."""
    setting, default = declared()[name], WorkerSettings._field_defaults[name]
    if setting.otherwise or default is None:
        return setting.otherwise
    if setting.kind is SettingKind.SWITCH:
        return "on" if default else "off"
    return f"{default:g}{'s' if setting.kind is SettingKind.TIME else ''}"


def _help_of(name: str, setting: Setting) -> str:
    """The help of an option, with its default."""
    default = "" if setting.kind is SettingKind.SWITCH else default_of(name)
    return f"{setting.help} (else {default})" if default else setting.help


def load_worker(
    *,
    given: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> WorkerSettings:
    """The worker's settings in force; a wrong one is refused with its source.

    `given`: the arguments by name; None, or an empty list of queues, means not given.
    """
    variables = os.environ if environ is None else environ
    path = (folder or current_folder()) / FILE
    lines = lines_of(path).get(WORKER, {})
    known = declared()
    refuse_unknown(lines, tuple(known), f"[{WORKER}] in {path}")
    refuse_unknown(dict(given), tuple(known), "worker")
    found: dict[str, Any] = {}
    for name, setting in known.items():
        variable = f"LIMPET_{name.upper()}"
        argument = given.get(name)
        if argument is not None and argument not in ([], ()):
            found[name] = _read(setting, argument, name)
        elif variables.get(variable):
            found[name] = _read(setting, variables[variable], variable)
        elif name in lines:
            found[name] = _read(setting, lines[name], f"{name} in [{WORKER}] of {path}")
    settings = WorkerSettings(**found)
    if settings.lanes == 0 and settings.async_jobs == 0:
        raise InvalidOption(
            "lanes and async_jobs are both 0, so the worker could run nothing; raise one of them."
        )
    if settings.gate_fall > settings.gate_rise:
        raise InvalidOption(
            f"gate_fall is {settings.gate_fall:g} and gate_rise {settings.gate_rise:g}; the "
            f"average must not fall faster than it rises, because a dip is not room."
        )
    return settings


def _read(setting: Setting, value: Any, source: str) -> Any:
    """The value of a setting as it is kept; raises `InvalidOption` with the source."""
    kind, least, most = setting.kind, setting.least, setting.most
    match kind:
        case SettingKind.NAME:
            return values.a_name(value, source)
        case SettingKind.QUEUES:
            return values.some_queues(value, source)
        case SettingKind.COUNT:
            return values.a_count(value, source, least=int(least))
        case SettingKind.TIME:
            longest = None if most is None else timedelta(seconds=most)
            read = values.a_time(value, source, least=timedelta(seconds=least), most=longest)
            return read.total_seconds()
        case SettingKind.SIZE:
            return values.a_size(value, source, least=int(least))
        case SettingKind.PERCENT:
            return values.a_share(value, source, least=1, most=100)
        case SettingKind.SHARE:
            return values.a_share(value, source, least=0, most=1)
        case SettingKind.SWITCH:
            return values.a_switch(value, source)
        case _:
            assert_never(kind)
