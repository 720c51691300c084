"""The pauses of a worker that cannot start again, as long as they are; run by `make prove`."""

import os
import signal
import time

from worker.place import Place, until
from worker.test_little_room import SOURCE

PAUSES = (0.2, 0.4, 0.8, 1.6, 3.2)


def test_pauses_of_a_worker_that_cannot_start_again_grow(place: Place) -> None:
    worker = place.worker(target=place.module(SOURCE))
    (place.folder / "own.py").write_text("import os\nos._exit(3)\n")
    os.kill(place.process("limpet-super"), signal.SIGKILL)
    ends: list[float] = []
    for number in range(len(PAUSES) + 1):
        until(lambda: worker.text.count("before it was ready") > len(ends))
        ends.append(time.monotonic())
        if number:
            assert ends[-1] - ends[-2] >= PAUSES[number - 1] * 0.9
    assert worker.popen.poll() is None
    (place.folder / "own.py").write_text(SOURCE)
    until(lambda: len(worker.log("worker_ready")) == 2)
