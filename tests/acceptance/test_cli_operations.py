"""Operations as a person types them: quarantine, what is refused, and help."""

import json

import pytest
from acceptance.command import Run
from acceptance.operations import Say, add
from contract.driver import Holder, get

from limpet.domain.cause import Raised
from limpet.domain.state import State
from limpet.domain.transition import Quarantine
from limpet.storage.contract.store import Store

# -- quarantine


def test_quarantined_jobs_are_listed_edited_and_released(
    store: Store, holder: Holder, limpet: Run
) -> None:
    def put_aside(args: str, task: str = "add") -> str:
        job = add(store, task, args=args)
        holder.settle(Quarantine(holder.take(), Raised("PayloadInvalid", "b is missing")))
        return job

    one, two, three = put_aside('{"a": 1}'), put_aside('{"a": 1, "b": 2}'), put_aside('{"a": "x"}')
    listed = limpet("quarantine", "list").stdout
    assert all(job in listed for job in (one, two, three))
    assert "PayloadInvalid: b is missing" in listed
    asked = limpet("quarantine", "release")
    assert (asked.returncode, "this would release 1 job" in asked.stderr) == (2, True)
    released = limpet("quarantine", "release", "--yes")
    assert released.returncode == 1
    assert released.stdout.startswith("1 job released, 2 refused\n")
    assert get(store, two).state is State.READY
    wrong = limpet("job", "repair", one)
    assert (wrong.returncode, "missing a required argument: 'b'" in wrong.stderr) == (2, True)
    assert (
        limpet("job", "repair", one, "--set", "b=5").stdout == f"{one} fits its task and is ready\n"
    )
    assert json.loads(get(store, one).args) == {"a": 1, "b": 5}
    assert limpet("job", "repair", three, '{"a": 1, "b": 2}').returncode == 0
    again = limpet("job", "repair", three)
    assert (again.returncode, "only a quarantined job" in again.stderr) == (1, True)
    for said in (("quarantine", "list"), ("quarantine",)):
        assert limpet(*said).stdout == "nothing is quarantined\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("jobs", "--created-since", "soon"), 2, "--created-since is 'soon'; write how long ago"),
        (("jobs", "--created-since", "1h", "--created-until", "2h"), 2, "is not before"),
        (("jobs", "--parent", "x"), 2, "is not the id of a job"),
        (("jobs", "retry", "--state", "lost"), 2, "invalid choice"),
        (("jobs", "move", "--queue", "a"), 2, "--to"),
        (("jobs", "move", "--queue", "a", "--to", "b c", "--yes"), 2, "a name has 1 to 100"),
        (("job", "why", "0" * 26), 1, "there is no job"),
        (("job", "why", "abc"), 2, "is not the id of a job"),
        (("job", "repair", "0" * 26), 2, "which app?"),
        (("queues", "pause", "a b"), 2, "a name has 1 to 100"),
        (("queues", "limit", "a"), 2, "say what to limit"),
        (("queues", "limit", "a", "--rate", "fast"), 2, "--rate is 'fast'"),
        (("queues", "limit", "a", "--concurrency", "0"), 2, "concurrency is 0"),
        (("queues", "limit", "a", "--weight", "5000"), 2, "weight is 5000"),
        (("queues", "hold", "a", "--for", "long"), 2, "the time to hold the queue is 'long'"),
        (("queues", "drain", "a", "--at-most", "x"), 2, "--at-most is 'x'"),
        (("keys", "limit", "k"), 2, "name what to limit"),
        (("keys", "limit", "", "--concurrency", "1"), 2, "key is ''"),
        (("quarantine", "list", "--state", "ready"), 2, "unrecognized arguments"),
        (("queues", "limit", "q", "--weight", "2", "--bursty"), 2, "--bursty needs a rate"),
        (
            ("keys", "limit", "k", "--concurrency", "2", "--bursty"),
            2,
            "--bursty needs a rate",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_an_exit_code(
    limpet_here: Say, words: tuple[str, ...], code: int, said: str
) -> None:
    given = limpet_here(*words)
    assert (given.code, said in given.err) == (code, True), given
    assert "Traceback" not in given.err


@pytest.mark.parametrize(
    "words",
    [
        ("jobs",), ("jobs", "retry"), ("jobs", "discard"), ("jobs", "move"), ("job", "repair"),
        ("job", "why"), ("queues",), ("queues", "drain"), ("queues", "limit"), ("keys", "limit"),
        ("breakers",), ("breakers", "reset"), ("quarantine", "release"),
    ],
)  # fmt: skip
def test_every_command_has_help_in_whole_sentences(
    limpet_here: Say, words: tuple[str, ...]
) -> None:
    said = limpet_here(*words, "--help")
    assert said.code == 0
    assert "show tracebacks" in said.out
