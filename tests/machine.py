"""How busy this machine is, for limits in seconds."""

import os


def crowded() -> float:
    """How many processes each core has to run: at least one, as on a machine that is ours alone.

    A limit in seconds cannot hold on a machine of which a worker gets a tenth.
    """
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
