"""What a host can prove of the sessions on it: the two questions that a sweeper asks."""

from limpet.domain.session import Session
from limpet.host import locks


def proof(session: Session) -> bool:
    """Whether every process of a session is certainly dead, as far as this host can tell."""
    lock = session.lock
    return lock is not None and locks.proves_death(session.id, lock.path, lock.inode, lock.nonce)


def forget(session: Session) -> None:
    """Remove what proved the death of a session, once the store knows of it."""
    if session.lock is not None:
        locks.forget(session.lock.path)
