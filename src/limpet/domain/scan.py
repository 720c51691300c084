"""The report of a scanner."""

from dataclasses import dataclass, field

from limpet.domain.checks import refusal, whole
from limpet.domain.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ScanReport:
    """How much a check found, how much of it was repaired, and notes for a person."""

    found: int = 0
    repaired: int = 0
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        whole(self.found, "ScanReport(found=…)", least=0)
        whole(self.repaired, "ScanReport(repaired=…)", least=0)
        if self.repaired > self.found:
            raise InvalidOption(
                f"ScanReport(found={self.found}, repaired={self.repaired}): no more can be "
                f"repaired than was found."
            )
        if not isinstance(self.notes, list) or not all(isinstance(x, str) for x in self.notes):
            raise refusal("ScanReport(notes=…)", self.notes, "a list of texts")
