"""Writes to the store what a worker's app declares about its queues and breakers."""

from collections.abc import Iterable
from dataclasses import replace

from limpet.domain.breaker import BreakerRules, BreakerStatus
from limpet.storage.contract.store import Store
from limpet.worker.wire.catalog import Catalog


def declare(store: Store, catalog: Catalog) -> None:
    """Declare the app's queues and breakers; called before the first claim, which they limit."""
    if catalog.queues:
        store.declare_queues(catalog.queues)
    known = frozenset(facts.name for facts in catalog.tasks)
    if rules := breakers_to_declare(store.breakers(), catalog.breakers, known):
        store.declare_breakers(rules)


def breakers_to_declare(
    there: Iterable[BreakerStatus], declared: Iterable[BreakerRules], known: frozenset[str]
) -> list[BreakerRules]:
    """The breakers to write, where this app decides only for the tasks that it knows.

    `there`: the breakers in the store. Tasks of other apps stay behind a breaker of the same name.
    A task that this app has taken from behind a breaker is taken out of it: else that breaker would
    hold the task back, though nobody reports the task's successes to it any more.
    """
    rules = {breaker.name: breaker for breaker in declared}
    for breaker in there:
        name, tasks = breaker.rules.name, breaker.rules.tasks
        if name in rules:
            rules[name] = replace(rules[name], tasks=rules[name].tasks | (tasks - known))
        elif tasks & known:
            rules[name] = replace(breaker.rules, tasks=tasks - known)
    return list(rules.values())
