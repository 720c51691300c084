"""How much room there is on a disk, from one that may not answer for hours."""

import os
import threading


class Disk:
    """Asked in a thread: a file system on a network that is away holds up whoever looks at it."""

    def __init__(self, path: str, patience: float = 0.1) -> None:
        """`patience`: for how many seconds a look waits for the answer."""
        self._path = path
        self._patience = patience
        self._asking: threading.Thread | None = None
        self._answer: tuple[int | None, str] = None, ""

    def free(self) -> tuple[int | None, str]:
        """How many bytes are free, or None and the reason."""
        if self._asking is None:
            self._asking = threading.Thread(target=self._ask, name="limpet-disk", daemon=True)
            self._asking.start()
            self._asking.join(self._patience)
        if self._asking.is_alive():
            return None, "disk not known: it does not answer"
        self._asking = None
        return self._answer

    def _ask(self) -> None:
        try:
            found = os.statvfs(self._path)
            self._answer = found.f_bavail * found.f_frsize, ""
        except OSError as error:
            self._answer = None, f"disk not known: {error.strerror}"
