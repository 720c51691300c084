"""Finds an app by its name, "module:app"."""

import sys
from importlib import import_module
from types import ModuleType

from limpet import settings
from limpet.app.app import App
from limpet.domain.errors import InvalidOption


def load_app(name: str) -> App:
    """Import "module:app"; the current folder comes first on the import path."""
    module_name, separator, attribute = name.partition(":")
    if not separator or not module_name or not attribute:
        raise InvalidOption(f"app {name!r}: write module:app, as in shop.jobs:app.")
    here = str(settings.current_folder())
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
                f"app {name!r}: there is no module {missing!r} here "
                f"({settings.current_folder()}) or on the Python path."
            ) from error
        raise InvalidOption(
            f"app {name!r}: {module_name} needs the module {missing!r}, which is not installed."
        ) from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        message = " ".join(str(error).split())[:500].rstrip(".")
        raise InvalidOption(
            f"app {name!r}: importing {module_name} raised {type(error).__name__}: {message}. "
            f"(--debug shows where.)"
        ) from error
