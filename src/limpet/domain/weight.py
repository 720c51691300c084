"""A weight: what a job takes of the machine that runs it."""

import math
from dataclasses import dataclass
from typing import Any

from limpet.domain.checks import flag, instance, is_number, refusal, set_fields
from limpet.domain.errors import InvalidOption
from limpet.domain.size import Size, size

# More than any machine has; a greater number is a slip, such as bytes for cores.
_MOST_CORES = 100_000


def _in_thousandths(cores: float) -> int:
    # Rounded up, so that the smallest weight is not 0; but the rounding error of a float such as
    # 0.3 must not count.
    return math.ceil(round(cores * 1000, 6))


@dataclass(frozen=True, slots=True, init=False)
class Weight:
    """What a job takes of its host while it runs: cores and memory.

    `cpu` is in cores and exact to a thousandth; `memory` is bytes, or a text such as "2GiB".
    `heavy`: the job runs with no other weighted work on its host, and begins only while the host
    is calm.
    """

    cpu: float
    memory: int
    heavy: bool

    def __init__(self, cpu: float = 0.0, memory: Size = 0, *, heavy: bool = False) -> None:
        if not is_number(cpu) or not 0 <= cpu <= _MOST_CORES:
            cores = "a number of cores, such as 0.5 or 2, not negative"
            raise refusal("Weight(cpu=…)", cpu, cores)
        flag(heavy, "Weight(heavy=…)")
        if isinstance(memory, str) and memory.strip("0 ").replace(".", "", 1).isdigit():
            raise InvalidOption(
                f'Weight(memory={memory!r}): write a unit, as in "{memory.strip()}GiB" or '
                f'"{memory.strip()}MB".'
            )
        set_fields(
            self,
            cpu=_in_thousandths(cpu) / 1000,
            memory=size(memory, what="Weight(memory=…)"),
            heavy=heavy,
        )
        if not (self.cpu or self.memory or heavy):
            raise InvalidOption(
                "Weight() weighs nothing; write what the job takes, such as "
                'Weight(cpu=1.0, memory="2GiB"), or leave the weight out.'
            )

    @property
    def millicores(self) -> int:
        """`cpu` in thousandths of a core: a whole number, which stores add up exactly."""
        return _in_thousandths(self.cpu)

    def record(self) -> dict[str, Any]:
        """The parts that are not zero, as they travel with a job and as a store keeps them."""
        every = {"cpu": self.cpu, "memory": self.memory, "heavy": self.heavy}
        return {name: value for name, value in every.items() if value}


HEAVY = Weight(heavy=True)
"""The weight of a task with `heavy=True`."""


def task_weight(weight: Weight | None, heavy: bool) -> Weight | None:
    """The weight of a task by its options; None for a light one."""
    if weight is not None:
        instance(weight, "weight", Weight, "limpet.Weight(cpu=…, memory=…)")
    if flag(heavy, "heavy") and weight is not None:
        raise InvalidOption(
            "weight and heavy are both given; a heavy job has its host to itself, whatever it "
            "weighs. Keep one of them."
        )
    return HEAVY if heavy else weight


def gives_way(on_pressure: object, weight: Weight | None) -> bool:
    """Whether a task's options let its attempts be handed back under memory pressure."""
    if on_pressure is None:
        return False
    if on_pressure != "release":
        raise refusal("on_pressure", on_pressure, '"release", or leave it out')
    if weight is None:
        raise InvalidOption(
            f"on_pressure is {on_pressure!r}, but the task has no weight; give it one, with "
            f"weight=limpet.Weight(…) or heavy=True."
        )
    return True


def weight_of(record: dict[str, Any]) -> Weight:
    """Read what `Weight.record` wrote; parts that this version does not know are ignored."""
    return Weight(
        record.get("cpu", 0.0), record.get("memory", 0), heavy=bool(record.get("heavy", False))
    )
