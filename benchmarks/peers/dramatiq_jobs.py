"""Dramatiq's side of the benchmark, on Redis.

dramatiq peers.dramatiq_jobs …                runs jobs
python -m peers.dramatiq_jobs COMMAND WORD    hands in jobs; the commands are in feeding.py
"""

import dramatiq
import tally
from dramatiq.brokers.redis import RedisBroker
from peers import environment

# Lost jobs are looked for by chance, in 1 of 1,000 commands; here in each.
tight = {"heartbeat_timeout": 4_000, "maintenance_chance": 1_000_000}
dramatiq.set_broker(RedisBroker(url=environment.store, **(tight if environment.tight else {})))


def _noop(payload: object) -> None:
    tally.count()


noop = dramatiq.actor(_noop, actor_name="noop")
pickup = dramatiq.actor(tally.pick_up, actor_name="pickup")
hold = dramatiq.actor(tally.hold, actor_name="hold")


def main() -> None:
    from feeding import Feed

    # It has no bulk call.
    Feed(noop.send, pickup.send, hold.send).obey()


if __name__ == "__main__":
    main()
