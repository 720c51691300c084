"""Small files of the kernel, opened once and read again and again."""

import os


class KernelFile:
    """A file of /proc or /sys; one that is missing or cannot be read is None, never an error."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    def read(self) -> bytes | None:
        """The text of the file now."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._descriptor, 65_536, 0)
        except OSError:
            # The descriptor of a removed group stays useless when the group is made again.
            self.close()
            return None

    def read_once(self) -> bytes | None:
        """The text of the file now, of a file that is not read again."""
        try:
            return self.read()
        finally:
            self.close()

    def number(self) -> int | None:
        """The whole number in the file; None also for a word such as "max"."""
        return number(self.read())

    def fields(self) -> dict[bytes, int]:
        """Lines of a name and a number, such as those of memory.stat; nothing if there are none."""
        found = {}
        for line in (self.read() or b"").splitlines():
            name, _, value = line.partition(b" ")
            if (read := number(value)) is not None:
                found[name] = read
        return found

    def close(self) -> None:
        """Close the descriptor; the next read opens the file again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def number(text: bytes | None) -> int | None:
    """A whole number not below 0, or None."""
    text = (text or b"").strip()
    return int(text) if text.isdigit() else None
