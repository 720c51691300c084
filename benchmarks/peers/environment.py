"""The environment by which the benchmark sets up a peer. Standard library only."""

import os

# The URL of the store.
STORE = "BENCH_STORE"
# `best`: the fastest settings. `default`: the defaults. `tight`: the soonest sane recovery.
SETTING = "BENCH_SETTING"

store = os.environ.get(STORE, "")
setting = os.environ.get(SETTING, "best")
tight = setting == "tight"
best = setting == "best"
