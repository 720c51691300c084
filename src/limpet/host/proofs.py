"""What a sweeper needs from its host: the proof of a session's death, and its removal."""

import os
from functools import partial

from limpet.domain.session import Session, SessionLock
from limpet.host import locks
from limpet.host.boot import boot_id
from limpet.host.bounded import Bounded

# Time for one proof: ending what is left of a session, and checking that, takes a second at most.
_PROOF_SECONDS = 2.0

_proofs: Bounded[bool] = Bounded(_PROOF_SECONDS)


def proof(session: Session) -> bool:
    """Whether every process of a session is certainly dead, as far as this host can tell.

    A session that registered under another boot id is not judged here: the disk of a living machine
    may have been cloned together with the lock files of its sessions, which are free in the clone.
    The lease of such a session decides.
    """
    lock = session.lock
    if lock is None or session.boot != boot_id() or not _is_sound(lock):
        return False
    question = partial(locks.proves_death, session.id, lock.path, lock.inode, lock.nonce)
    return bool(_proofs.query(os.path.dirname(lock.path), session.id, question))


def forget(session: Session) -> None:
    """Remove the files that proved the death of a session, once the store knows of it."""
    lock = session.lock
    if lock is not None and session.boot == boot_id() and _is_sound(lock):
        locks.forget(session.id, lock.path)


def _is_sound(lock: SessionLock) -> bool:
    """Whether the lock is as a guardian writes it: anybody may have written into the store."""
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
