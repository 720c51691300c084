"""Writes docs/concepts/states.md from the only table of states and moves."""

from pathlib import Path

from limpet.domain.state import FINAL, TABLE, WAITING, chart

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "states.md"


def page() -> str:
    """The text of the page."""
    rows = [f"| {arrow.move} | {arrow.source or '(nothing)'} | {arrow.target} |" for arrow in TABLE]
    return "\n".join(
        [
            "# States of a job",
            "",
            "Generated from `src/limpet/domain/state.py` by `make chart`; a test keeps it so.",
            "",
            "```mermaid",
            chart().rstrip(),
            "```",
            "",
            f"Waiting: {', '.join(sorted(WAITING))}. Final: {', '.join(sorted(FINAL))}.",
            "",
            "| move | from | to |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
