"""Tells the store what the app of a worker declares of its queues and breakers."""

from collections.abc import Iterable
from dataclasses import replace

from limpet.domain.breaker import BreakerRules, BreakerStatus
from limpet.storage.contract.store import Store
from limpet.worker.wire.catalog import Catalog


def declare(store: Store, catalog: Catalog) -> None:
    """Before anything is claimed: a limit holds from the first job on."""
    if catalog.queues:
        store.declare_queues(catalog.queues)
    known = frozenset(facts.name for facts in catalog.tasks)
    if rules := breakers_to_declare(store.breakers(), catalog.breakers, known):
        store.declare_breakers(rules)


def breakers_to_declare(
    there: Iterable[BreakerStatus], declared: Iterable[BreakerRules], known: frozenset[str]
) -> list[BreakerRules]:
    """The breakers as this app has them, which decides for the tasks that it knows, and no others.

    Those of other apps stay behind a breaker of the same name. A task that is no longer behind a
    breaker is taken out of it: else it would be held back by what nobody tells of its successes.
    """
    rules = {each.name: each for each in declared}
    for breaker in there:
        name, tasks = breaker.rules.name, breaker.rules.tasks
        if name in rules:
            rules[name] = replace(rules[name], tasks=rules[name].tasks | (tasks - known))
        elif tasks & known:
            rules[name] = replace(breaker.rules, tasks=tasks - known)
    return list(rules.values())
