"""Which store and which app a command is about."""

import argparse
import sys
from importlib import import_module
from types import ModuleType

from limpet import settings
from limpet.app import App
from limpet.domain.errors import InvalidOption
from limpet.storage.base import Store
from limpet.storage.registry import open_store


def add_target(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """The options that every command has."""
    parser.add_argument("--url", help="the store, as in sqlite:///jobs.db (else LIMPET_URL)")
    parser.add_argument("--app", metavar="MODULE:APP", help="the app (else LIMPET_APP)")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")


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
        app.move_to(arguments.url)
    return app


def load_app(name: str) -> App:
    """Import "module:app"; the current folder is looked in first."""
    module_name, separator, attribute = name.partition(":")
    if not separator or not module_name or not attribute:
        raise InvalidOption(f"app {name!r}: write module:app, as in shop.jobs:app.")
    here = str(settings.here())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _import(name, module_name)
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        found = "nothing" if app is None else f"a {type(app).__name__}"
        raise InvalidOption(
            f"app {name!r}: {attribute!r} in {module_name} is {found}, not a limpet.App."
        )
    return app


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(missing + "."):
            raise InvalidOption(
                f"app {name!r}: there is no module {missing!r} here ({settings.here()}) or on the "
                f"Python path."
            ) from error
        raise InvalidOption(
            f"app {name!r}: {module_name} needs the module {missing!r}, which is not installed."
        ) from error
    except Exception as error:
        raise InvalidOption(
            f"app {name!r}: importing {module_name} raised {type(error).__name__}: {error}. "
            f"(--debug shows where.)"
        ) from error
