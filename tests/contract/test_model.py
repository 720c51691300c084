"""The store against a small pure model, through thousands of random steps.

`make prove` takes almost twice as many. `LIMPET_MODEL_SEED=n` takes others than the usual ones.
"""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

import pytest
from contract.choices import (
    DELAYS,
    FAMILIES,
    KEYS,
    LEASE,
    LEASES,
    MAKE,
    NUMBERS,
    OUTCOMES,
    PASSES,
    QUEUES,
    ROOM,
    SLOTS,
    TASKSETS,
    TURNS,
    UNIQUES,
    Outcome,
    Pick,
)
from contract.driver import BACKENDS, HOOK, KILLED, LONG, SECOND, new_id
from contract.pair import Pair
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from limpet.domain.job import NewJob
from limpet.domain.rules import Rules
from limpet.domain.transition import Orphan
from limpet.storage.contract.store import ANY_QUEUE, Pool

MODELLED = sorted(BACKENDS)
RUNS, STEPS = 220 if LONG else 60, 50
# Its rules are twenty statements, and would take most of the time.
SOUND_EVERY = {"postgres": 5, "postgres15": 5}
LEAST_STEPS = 2_500

_steps_taken = 0


class Machine(RuleBasedStateMachine):
    """A step is one rule; after each, everything that the store and the model have is compared.

    What happens most in life has a rule of its own; what happens now and then shares one.
    """

    backend: str
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(self.backend, Path(mkdtemp(dir=self.folder)))

    def teardown(self) -> None:
        self.pair.close()

    @rule(
        task=st.sampled_from(["a", "a", "a", "b", "b", "c", "d"]),
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from([0, 0, 0, 1, -1, 5]),
        delay=DELAYS,
        expires=DELAYS,
        deadline=DELAYS,
        hook=st.booleans(),
        key=KEYS,
        unique=UNIQUES,
        rules=TURNS,
    )
    def enqueue(
        self,
        task: str,
        queue: str,
        priority: int,
        delay: int | None,
        expires: int | None,
        deadline: int | None,
        hook: bool,
        key: str | None,
        unique: str | None,
        rules: Rules | None,
    ) -> None:
        now = self.pair.clock.wall()
        if key is not None:
            # Whether a turn that lapses goes to one who waits or to one who is due in the same
            # step, if their limits differ, is left to the store.
            expires = deadline = None
        at = [None if each is None else now + each * SECOND for each in (delay, expires, deadline)]
        job = NewJob(
            id=new_id(), task=task, args="{}", queue=queue, priority=priority,
            options=HOOK if hook else "{}",
            scheduled_for=at[0], expires_at=at[1], deadline_at=at[2],
            key=key, unique=unique, rules=rules,
        )  # fmt: skip
        self.pair.enqueue([job])

    @rule(
        number=st.integers(1, 4),
        queue=st.sampled_from(QUEUES),
        again=NUMBERS,
        key=KEYS,
        rules=TURNS,
    )
    def enqueue_many_and_one_again(
        self, number: int, queue: str, again: int, key: str | None, rules: Rules | None
    ) -> None:
        jobs = [
            NewJob(new_id(), "ab"[n % 2], "{}", queue, key=key, rules=rules) for n in range(number)
        ]
        asked = self.pair.asked
        self.pair.enqueue([*jobs, asked[again % len(asked)]] if asked else jobs)

    @rule(
        number=st.integers(1, 3),
        rules=FAMILIES,
        nested=st.booleans(),
        late=st.booleans(),
        key=KEYS,
    )
    def enqueue_flow(
        self, number: int, rules: Rules, nested: bool, late: bool, key: str | None
    ) -> None:
        """A parent and its children, the second of which may be a parent itself."""
        top = NewJob(new_id(), "a", "{}", "one", key=key, rules=Rules(children=number))
        jobs = [
            NewJob(new_id(), "ab"[n % 2], "{}", QUEUES[n % 2], parent=top.id, key=key, rules=rules)
            for n in range(number)
        ]
        if nested:
            jobs[0] = jobs[0]._replace(rules=rules._replace(children=1))
            jobs.append(NewJob(new_id(), "b", "{}", "two", parent=jobs[0].id, rules=rules))
        if late:
            self.pair.enqueue([top])
            self.pair.enqueue(jobs)
        else:
            self.pair.enqueue([*jobs, top])

    @rule(pick=NUMBERS, fences=LEASES, again=NUMBERS, passes=st.sampled_from([0, 0, 29, 30]))
    def enqueue_under_a_fence(self, pick: int, fences: list[Pick], again: int, passes: int) -> None:
        asked = self.pair.asked
        session = self.pair.session(pick)
        if passes:
            self.pair.wait(passes)
        for fence in self.pair.leases(session, fences):
            old = asked[again % len(asked)] if asked and again % 3 == 0 else None
            self.pair.enqueue_under(fence, [old or NewJob(new_id(), "a", "{}", "one")])

    @rule(pick=NUMBERS, slots=SLOTS, room=ROOM, alone=ROOM)
    def claim(self, pick: int, slots: dict[str, int], room: int, alone: int) -> None:
        session = self.pair.session(pick)
        pool = Pool(self.pair.digests[session], slots, room, min(room, alone))
        self.pair.exchange(session, self.pair.seq(session) + 1, (), pool)

    @rule(pick=NUMBERS, outcomes=OUTCOMES, room=ROOM, begun=LEASES)
    def settle_and_claim(
        self, pick: int, outcomes: list[Outcome], room: int, begun: list[Pick]
    ) -> None:
        session = self.pair.session(pick)
        settlements = self.pair.settlements(session, outcomes)
        pool = Pool(self.pair.digests[session], {ANY_QUEUE: 5}, room, room)
        started = self.pair.leases(session, begun)
        self.pair.exchange(session, self.pair.seq(session) + 1, settlements, pool, started)

    @rule(
        pick=NUMBERS,
        kind=st.sampled_from(["complete", "complete", "retry", "fail", "release", "quarantine"]),
        delay=st.sampled_from([0, 1, 40]),
    )
    def work_off(self, pick: int, kind: str, delay: int) -> None:
        """A worker of everything takes what there is, and all of it ends in one way."""
        session = self.pair.session(pick)
        pool = Pool(self.pair.digests[session], {ANY_QUEUE: 5}, 5, 5)
        self.pair.exchange(session, self.pair.seq(session) + 1, (), pool)
        at = self.pair.clock.wall() + delay * SECOND
        settlements = [MAKE[kind](lease, at) for lease in self.pair.model.held(session)]
        self.pair.exchange(session, self.pair.seq(session) + 1, settlements, pool)

    @rule(pick=NUMBERS, outcomes=OUTCOMES)
    def settle(self, pick: int, outcomes: list[Outcome]) -> None:
        self.settle_and_claim(pick, outcomes, 0, [])

    @rule(pick=NUMBERS, outcomes=OUTCOMES, off=st.sampled_from([0, 0, 0, 0, -1, 2]))
    def exchange_out_of_turn(self, pick: int, outcomes: list[Outcome], off: int) -> None:
        session = self.pair.session(pick)
        settlements = self.pair.settlements(session, outcomes)
        pool = Pool(self.pair.digests[session], {ANY_QUEUE: 5}, 5)
        self.pair.exchange(session, self.pair.seq(session) + off, settlements, pool)

    @rule(pick=NUMBERS, begun=LEASES, draining=st.sampled_from([False] * 9 + [True]))
    def renew(self, pick: int, begun: list[Pick], draining: bool) -> None:
        session = self.pair.session(pick)
        self.pair.renew(session, self.pair.leases(session, begun), draining)

    @rule(pick=NUMBERS, picks=LEASES)
    def release(self, pick: int, picks: list[Pick]) -> None:
        session = self.pair.session(pick)
        self.pair.release(session, self.pair.leases(session, picks))

    @rule(seconds=PASSES, renew=st.booleans(), promote=st.booleans())
    def let_time_pass(self, seconds: float, renew: bool, promote: bool) -> None:
        self.pair.wait(seconds)
        for session in self.pair.sessions[-3:] if renew else ():
            if self.pair.lives(session):
                self.pair.renew(session)
        if promote:
            self.pair.promote()
        if seconds > 3_600:
            self.pair.sweep()
            self.pair.prune()

    @rule(pick=NUMBERS, retry=st.booleans(), off=st.sampled_from([0, 0, 0, -1, 1]))
    def cancel_or_retry(self, pick: int, retry: bool, off: int) -> None:
        job = self.pair.job(pick)
        if retry:
            self.pair.retry(job, off)
        else:
            self.pair.cancel(job)

    @rule(
        what=st.sampled_from(
            ["end", "begin", "expire", "sweep", "prune", "promote", "recover", "pause", "resume"]
            + ["strike", "vanish", "register again", "clock forward", "clock back"]
            + ["limit", "repair"]
        ),
        pick=NUMBERS,
        tasks=TASKSETS,
    )
    def keep_house(self, what: str, pick: int, tasks: tuple[str, ...]) -> None:
        pair = self.pair
        match what:
            case "end":
                pair.end(pair.session(pick), charged=bool(pick % 2))
            case "begin":
                pair.begin(tasks)
            case "expire":
                pair.expire((None, LEASE, LEASE * 3, LEASE / 2)[pick % 4])
            case "sweep":
                pair.sweep()
            case "prune":
                pair.prune()
            case "promote":
                pair.promote()
            case "recover":
                pair.recover(pair.session(pick))
            case "strike" | "vanish":
                self._lose_again_and_again(1 + pick % 11, alone=what == "strike")
            case "register again":
                session = pair.session(pick)
                if session in pair.model.sessions:
                    known = pair.model.sessions[session]
                    pair.register(session, known.tasks, timedelta(microseconds=known.lease))
            case "clock forward" | "clock back":
                pair.clock.step_wall(timedelta(hours=1 if what == "clock forward" else -1))
            case "limit":
                pair.limit(QUEUES[pick % 2], (None, 1, 2, 3)[pick // 2 % 4])
            case "repair":
                stuck = [id_ for id_, job in pair.model.jobs.items() if job.state == "quarantined"]
                pair.repair(stuck[pick % len(stuck)] if stuck else pair.job(pick))
            case _:
                pair.pause(QUEUES[pick % 2], what == "pause")

    def _lose_again_and_again(self, times: int, alone: bool) -> None:
        """One worker after the other is lost with all it holds, or one process after the other."""
        pair = self.pair
        for _ in range(times):
            session = pair.begin(("a", "b"))
            pool = Pool(pair.digests[session], {ANY_QUEUE: 1}, 1, 1)
            pair.exchange(session, 1, (), pool)
            held = pair.model.held(session)
            pair.renew(session, held)
            if alone:
                lost = [Orphan(lease, KILLED, begun=True, alone=True) for lease in held]
                pair.exchange(session, 2, lost, replace(pool, total=0))
            pair.end(session, charged=True)
            pair.recover(session)

    @invariant()
    def store_is_sound_and_has_what_the_model_has(self) -> None:
        global _steps_taken
        _steps_taken += 1
        if _steps_taken % SOUND_EVERY.get(self.backend, 1) == 0:
            assert self.pair.store.invariants() == ()
        self.pair.compare_jobs()
        self.pair.compare_sessions()
        self.pair.compare_queues()


@pytest.mark.parametrize("backend", MODELLED)
def test_store_does_what_the_model_does(backend: str, tmp_path: Path) -> None:
    global _steps_taken
    _steps_taken = 0
    own = {"backend": backend, "folder": tmp_path}
    machine: type[Machine] = type(f"Machine_{backend}", (Machine,), own)
    if "LIMPET_MODEL_SEED" in os.environ:
        machine = seed(int(os.environ["LIMPET_MODEL_SEED"]))(machine)
    # The same steps on every machine, however slow: a run that fails, fails for everyone.
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            # Shrinking takes minutes; whoever looks for a cause can turn it on again.
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert _steps_taken >= LEAST_STEPS
