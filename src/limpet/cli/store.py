"""`limpet migrate` and `limpet fsck`: the store itself."""

import argparse
from dataclasses import asdict
from typing import Any

from limpet.cli.output import say, say_json
from limpet.cli.target import add_target, find_store
from limpet.domain.plural import number_of
from limpet.maintenance.scanner import mend


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    migrate = commands.add_parser("migrate", help="make the store, or bring it up to date")
    add_target(migrate)
    migrate.set_defaults(run=_migrate)
    fsck = commands.add_parser("fsck", help="check what must always hold; exit 1 if it does not")
    fsck.add_argument(
        "--repair",
        action="store_true",
        help="put right what can be told from the jobs themselves; no job is removed",
    )
    add_target(fsck)
    fsck.set_defaults(run=_fsck)


def _migrate(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    applied = store.migrate()
    info = store.info()
    if arguments.json:
        say_json({**asdict(info), "applied": applied})
    else:
        for step in applied:
            say(f"applied {step}")
        state = "up to date" if applied else "already up to date"
        say(f"{info.url} is {state}: schema {info.schema_version}, {info.durability}")
    return 0


def _fsck(arguments: argparse.Namespace) -> int:
    store = find_store(arguments)
    mended, broken = mend(store) if arguments.repair else ((), store.invariants())
    if arguments.json:
        told: Any = [asdict(each) for each in broken]
        if arguments.repair:
            told = {"mended": [asdict(each) for each in mended], "broken": told}
        say_json(told)
        return 1 if broken else 0
    for done in mended:
        say(f"{done.invariant}: put right {number_of(done.count, 'time')}")
    if not broken:
        say(f"{store.info().url}: everything holds")
    for each in broken:
        say(f"{each.invariant}: broken {number_of(each.count, 'time')}, for example {each.example}")
        say(f"    it must hold that {each.sentence}")
    return 1 if broken else 0
