"""The program that the demo's `convert` starts, as a job would start ffmpeg.

It behaves badly on purpose: it leaves a daemon behind, two forks away and in a session of its own.
The daemon would write on for a minute if nobody ended it.
"""

import os
import sys
import time

from limpet.demo.diary import SAMPLE_SECONDS, Pen

_DAEMON_SECONDS = 60.0


def main(job: str, token: int, seconds: float) -> None:
    """Work for `seconds`, and leave a daemon behind."""
    pen = Pen(job, token, "program")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _live(Pen(job, token, "daemon"), _DAEMON_SECONDS)
        os._exit(0)
    os.wait()
    _live(pen, seconds)


def _live(pen: Pen, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pen.alive()
        time.sleep(SAMPLE_SECONDS)
    pen.end()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
