"""Which store and which app a command is about."""

import argparse
from typing import Any

from limpet import settings
from limpet.app.app import App
from limpet.app.locate import load_app
from limpet.domain.errors import InvalidOption
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store


def add_target(parser: argparse.ArgumentParser, *, json: bool = True, under: bool = False) -> None:
    """The options that every command has.

    `under`: a command of a command that has them too; what was said there stays.
    """
    text: Any = argparse.SUPPRESS if under else None
    flag: Any = argparse.SUPPRESS if under else False
    parser.add_argument(
        "--url", default=text, help="the store, as in sqlite:///jobs.db (else LIMPET_URL)"
    )
    parser.add_argument(
        "--app", default=text, metavar="MODULE:APP", help="the app (else LIMPET_APP)"
    )
    parser.add_argument("--debug", action="store_true", default=flag, help="show tracebacks")
    if json:
        parser.add_argument("--json", action="store_true", default=flag, help="print JSON")


def find_store(arguments: argparse.Namespace) -> Store:
    """The store of `--url`, else that of the app, else what the settings name."""
    if arguments.url is not None:
        return open_store(arguments.url)
    found = settings.load(app=arguments.app)
    return open_store(found.url if found.app is None else load_app(found.app).url)


def find_app(arguments: argparse.Namespace) -> App:
    """The app, on the store of `--url` where that is given."""
    name = settings.load(app=arguments.app).app
    if name is None:
        raise InvalidOption(
            'which app? Pass --app module:app, set LIMPET_APP, or write app = "module:app" into '
            "limpet.toml."
        )
    app = load_app(name)
    if arguments.url is not None:
        app.registry.move_to(arguments.url)
    return app
