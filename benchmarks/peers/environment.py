"""What the benchmark asks of a peer. Standard library only."""

import os

# The URL of the store.
STORE = "BENCH_STORE"
# `best`: as fast as it can be. `default`: as it comes. `tight`: the soonest sane recovery.
SETTING = "BENCH_SETTING"

store = os.environ.get(STORE, "")
setting = os.environ.get(SETTING, "best")
tight = setting == "tight"
best = setting == "best"
