"""`limpet migrate` and `limpet fsck`: the store itself."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from limpet.cli.command import command, group
from limpet.cli.output import say, say_json
from limpet.cli.target import Common, find_store
from limpet.domain.plural import number_of
from limpet.maintenance.scanner import mend

migrate_app, fsck_app = group(), group()


@command(migrate_app, "migrate", "make the store, or bring it up to date")
def migrate(common: Common) -> int:
    """Bring the store up to date."""
    store = find_store(common)
    applied = store.migrate()
    info = store.info()
    if common.json:
        say_json({**asdict(info), "applied": applied})
    else:
        for step in applied:
            say(f"applied {step}")
        state = "up to date" if applied else "already up to date"
        say(f"{info.url} is {state}: schema {info.schema_version}, {info.durability}")
    return 0


@command(fsck_app, "fsck", "check what must always hold; exit 1 if it does not")
def fsck(
    common: Common,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="put right what can be told from the jobs themselves; no job is removed",
        ),
    ] = False,
) -> int:
    """Check the store."""
    store = find_store(common)
    mended, broken = mend(store) if repair else ((), store.invariants())
    if common.json:
        record: Any = [asdict(each) for each in broken]
        if repair:
            record = {"mended": [asdict(each) for each in mended], "broken": record}
        say_json(record)
        return 1 if broken else 0
    for done in mended:
        say(f"{done.invariant}: put right {number_of(done.count, 'time')}")
    if not broken:
        say(f"{store.info().url}: everything holds")
    for each in broken:
        say(f"{each.invariant}: broken {number_of(each.count, 'time')}, for example {each.example}")
        say(f"    it must hold that {each.sentence}")
    return 1 if broken else 0
