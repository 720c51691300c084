"""`limpet migrate` and `limpet fsck`: create, upgrade, check and repair the store."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from limpet.cli.command import command, group
from limpet.cli.output import print_json, print_line
from limpet.cli.target import Common, find_store
from limpet.domain.plural import number_of
from limpet.maintenance.scanner import repair_store

migrate_app, fsck_app = group(), group()


@command(migrate_app, "migrate", "make the store, or bring it up to date")
def migrate(common: Common) -> int:
    """Bring the store up to date."""
    store = find_store(common)
    applied = store.migrate()
    info = store.info()
    if common.json:
        print_json({**asdict(info), "applied": applied})
    else:
        for step in applied:
            print_line(f"applied {step}")
        state = "up to date" if applied else "already up to date"
        print_line(f"{info.url} is {state}: schema {info.schema_version}, {info.durability}")
    return 0


@command(fsck_app, "fsck", "check the invariants; exit 1 if one is broken")
def fsck(
    common: Common,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="put right what can be derived from the jobs themselves; no job is removed",
        ),
    ] = False,
) -> int:
    """Check the store, and repair it where that is wanted."""
    store = find_store(common)
    repaired, broken = repair_store(store) if repair else ((), store.invariants())
    if common.json:
        record: Any = [asdict(violation) for violation in broken]
        if repair:
            record = {"mended": [asdict(violation) for violation in repaired], "broken": record}
        print_json(record)
        return 1 if broken else 0
    for done in repaired:
        print_line(f"{done.invariant}: put right {number_of(done.count, 'time')}")
    if not broken:
        print_line(f"{store.info().url}: every invariant holds")
    for violation in broken:
        times = number_of(violation.count, "time")
        print_line(f"{violation.invariant}: broken {times}, for example {violation.example}")
        print_line(f"    it must hold that {violation.sentence}")
    return 1 if broken else 0
