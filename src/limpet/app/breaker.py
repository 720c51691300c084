"""A circuit breaker as the user writes it."""

from dataclasses import dataclass
from datetime import timedelta

from limpet.domain.breaker import BreakerRules
from limpet.domain.checks import instance, set_fields, share, some_time, whole
from limpet.domain.duration import Duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import checked_name


@dataclass(frozen=True, slots=True, init=False)
class Breaker:
    """Holds jobs back while what they depend on fails.

    The breaker opens when at least `least` attempts ended within one `window` and the share
    `failure_rate` of them failed. Then no job of its tasks begins for `probe_after`; after that
    one job begins at a time, until one succeeds. A breaker without a `name` is for one task only.
    """

    name: str | None
    failure_rate: float
    least: int
    window: timedelta
    probe_after: timedelta

    def __init__(
        self,
        name: str | None = None,
        *,
        failure_rate: float = 0.5,
        least: int = 10,
        window: Duration = timedelta(seconds=60),
        probe_after: Duration = timedelta(seconds=30),
    ) -> None:
        if name is not None:
            checked_name(name, "breaker")
        set_fields(
            self,
            name=name,
            failure_rate=float(share(failure_rate, "Breaker(failure_rate=…)", above_zero=True)),
            least=whole(least, "Breaker(least=…)"),
            window=some_time(window, "Breaker(window=…)"),
            probe_after=some_time(probe_after, "Breaker(probe_after=…)"),
        )

    def rules(self, name: str, tasks: frozenset[str]) -> BreakerRules:
        """The rules as the store keeps them."""
        return BreakerRules(
            name,
            tasks,
            self.failure_rate,
            self.least,
            microseconds(self.window),
            microseconds(self.probe_after),
        )


class BreakerDefinitions:
    """The breakers of an app, by name, and the tasks that each breaker holds back."""

    def __init__(self) -> None:
        self._defined: dict[str, Breaker] = {}
        self._tasks: dict[str, set[str]] = {}

    def define(self, breaker: Breaker, name: str | None = None) -> None:
        """Keep a definition; raises `InvalidOption` for two of the same name that differ."""
        named = Breaker(
            breaker.name or name,
            failure_rate=breaker.failure_rate,
            least=breaker.least,
            window=breaker.window,
            probe_after=breaker.probe_after,
        )
        if named.name is None:
            raise InvalidOption('app.breaker(…) needs a name: app.breaker("stripe", …).')
        known = self._defined.setdefault(named.name, named)
        if known != named:
            raise InvalidOption(
                f"breaker {named.name!r} is defined twice, and not alike; define it once with "
                f'app.breaker("{named.name}", …) and name it in each task.'
            )

    def guard(self, task: str, breaker: "Breaker | str | None") -> None:
        """Put a task behind a breaker; a breaker given by its name may be defined later."""
        if breaker is None:
            return
        if isinstance(breaker, Breaker):
            self.define(breaker, name=task)
            name = breaker.name or task
        else:
            given = instance(breaker, "breaker", str, "limpet.Breaker(…), or the name of one")
            name = checked_name(given, "breaker")
        self._tasks.setdefault(name, set()).add(task)

    def rules(self) -> tuple[BreakerRules, ...]:
        """The rules of breakers that have tasks; raises `InvalidOption` for an undefined name."""
        for name, tasks in self._tasks.items():
            if name not in self._defined:
                raise InvalidOption(
                    f"task {min(tasks)!r} names the breaker {name!r}, which is not defined; write "
                    f'app.breaker("{name}", …).'
                )
        return tuple(
            self._defined[name].rules(name, frozenset(tasks))
            for name, tasks in sorted(self._tasks.items())
        )
