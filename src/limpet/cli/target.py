"""The store and the app that a command works on."""

from dataclasses import dataclass
from typing import Annotated

import typer

from limpet import settings
from limpet.app.app import App
from limpet.app.locate import load_app
from limpet.domain.errors import InvalidOption
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

COMMON = "Common options"

Json = Annotated[bool, typer.Option("--json", help="print JSON", rich_help_panel=COMMON)]
Debug = Annotated[bool, typer.Option("--debug", help="show tracebacks", rich_help_panel=COMMON)]


@dataclass(frozen=True, slots=True)
class Target:
    """The options of a command that works on a store."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="the store, as in sqlite:///jobs.db (else LIMPET_URL)",
            rich_help_panel=COMMON,
        ),
    ] = None  # fmt: skip
    app: Annotated[
        str | None,
        typer.Option(
            "--app", metavar="MODULE:APP", help="the app (else LIMPET_APP)", rich_help_panel=COMMON
        ),
    ] = None
    debug: Debug = False


@dataclass(frozen=True, slots=True)
class Common(Target):
    """The options of a command that can print JSON."""

    json: Json = False


def find_store(target: Target) -> Store:
    """The store of `--url`, else of the app, else of the settings."""
    if target.url is not None:
        return open_store(target.url)
    found = settings.load(app=target.app)
    return open_store(found.url if found.app is None else load_app(found.app).url)


def find_app(target: Target) -> App:
    """The app, on the store of `--url` if that is given."""
    name = settings.load(app=target.app).app
    if name is None:
        raise InvalidOption(
            'which app? Pass --app module:app, set LIMPET_APP, or write app = "module:app" into '
            "limpet.toml."
        )
    app = load_app(name)
    if target.url is not None:
        app.registry.move_to(target.url)
    return app
