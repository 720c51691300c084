"""Writes docs/concepts/worker-settings.md from the only table of a worker's settings."""

from pathlib import Path

from limpet.settings import worker_options
from limpet.settings.worker import declared, default_of

SOURCE = "src/limpet/domain/worker_settings.py"
PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "worker-settings.md"


def page() -> str:
    """The text of the page."""
    flags = {option.name: " ".join(option.flags) for option in worker_options()}
    rows = [
        f"| `{name}` | {f'`{flags[name]}`' if name in flags else ''} | `LIMPET_{name.upper()}` "
        f"| {default_of(name)} | {setting.help} |"
        for name, setting in declared().items()
    ]
    return "\n".join(
        [
            "# Settings of a worker",
            "",
            f"Generated from `{SOURCE}` by `make chart`; a test keeps it so.",
            "",
            "Each is an option of `limpet worker`, else a variable, else a line in the table "
            "`[worker]` of `limpet.toml`,",
            "in that order of strength. Those of the gate are explained in [the gate](gate.md).",
            "",
            "| setting | option | variable | default | what it does |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
