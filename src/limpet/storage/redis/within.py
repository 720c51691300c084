"""Refuses `within=`: Redis cannot enqueue a job in the user's own transaction."""

from limpet.domain.errors import TransactionRefused


def refuse(connection: object) -> TransactionRefused:
    """Redis has no transactions that could commit together with those of another database."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return TransactionRefused(
        f"within= was given a {kind}, but the store is Redis, which cannot commit together with "
        f"it. Enqueue after your transaction has committed, or keep the jobs in a postgresql:// "
        f"store beside your tables."
    )
