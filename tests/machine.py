"""How busy this machine is, for limits in seconds."""

import os
from pathlib import Path


def crowded() -> float:
    """How many processes each core has to run: at least one, as on a machine that is ours alone.

    A limit in seconds cannot hold on a machine of which a worker gets a tenth. The load average
    follows a burst by a minute, so what is runnable at this moment counts as well.
    """
    cores = os.cpu_count() or 1
    return max(1.0, os.getloadavg()[0] / cores, _runnable() / cores)


def _runnable() -> int:
    """Processes and threads that run or wait for a core now; none where no kernel counts them."""
    try:
        counts = Path("/proc/loadavg").read_text().split()[3]
    except OSError:
        return 0
    return int(counts.partition("/")[0])
