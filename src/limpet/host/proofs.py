"""What a host can prove of the sessions on it: the two questions that a sweeper asks."""

import os
from functools import partial

from limpet.domain.session import Session, SessionLock
from limpet.host import locks
from limpet.host.boot import boot_id
from limpet.host.bounded import Bounded

# For one proof: to end what is left of a session, and to be sure of it, takes a second at most.
_PROOF_SECONDS = 2.0

_proofs: Bounded[bool] = Bounded(_PROOF_SECONDS)


def proof(session: Session) -> bool:
    """Whether every process of a session is certainly dead, as far as this host can tell.

    Of a session that registered on another start of a machine this host can tell nothing: the disk
    of a living machine may have been cloned, with the locks of its sessions on it, which are free
    here. Its lease decides then.
    """
    lock = session.lock
    if lock is None or session.boot != boot_id() or not _is_sound(lock):
        return False
    question = partial(locks.proves_death, session.id, lock.path, lock.inode, lock.nonce)
    return bool(_proofs.ask(os.path.dirname(lock.path), session.id, question))


def forget(session: Session) -> None:
    """Remove what proved the death of a session, once the store knows of it."""
    lock = session.lock
    if lock is not None and session.boot == boot_id() and _is_sound(lock):
        locks.forget(session.id, lock.path)


def _is_sound(lock: SessionLock) -> bool:
    """Whether it is what a guardian writes: anybody may have written into the store."""
    values: tuple[object, ...] = (lock.path, lock.inode, lock.nonce)
    path, inode, nonce = values
    return (
        isinstance(path, str)
        and isinstance(inode, int)
        and isinstance(nonce, str)
        and "\0" not in path
        and nonce.isascii()
        and nonce != ""
    )
