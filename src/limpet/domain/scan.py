"""What a scanner reports."""

from dataclasses import dataclass, field

from limpet.domain.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ScanReport:
    """What a check found, how much of it was repaired, and what a person should know."""

    found: int = 0
    repaired: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("found", "repaired"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidOption(
                    f"ScanReport({name}={value!r}): write a whole number, not negative."
                )
        if self.repaired > self.found:
            raise InvalidOption(
                f"ScanReport(found={self.found}, repaired={self.repaired}): no more can be "
                f"repaired than was found."
            )
        if not isinstance(self.notes, list) or not all(isinstance(x, str) for x in self.notes):
            raise InvalidOption(f"ScanReport(notes={self.notes!r}): write a list of texts.")
