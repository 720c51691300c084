"""ops.quarantine: what does not fit is edited, checked again, and let go on."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from contract.driver import Holder, add, get, told
from pydantic import BaseModel, field_validator

from limpet import App, Secret
from limpet.domain.cause import Raised
from limpet.domain.errors import InvalidOption, JobNotFound, MoveRefused, PayloadInvalid
from limpet.domain.event import EventName
from limpet.domain.job import Job
from limpet.domain.state import State
from limpet.domain.transition import Quarantine
from limpet.ops.job_answer import job_answer
from limpet.ops.quarantine import change_and_release, edit_and_release, release_many
from limpet.ops.selection import Selection
from limpet.storage.contract.store import Store

MISFIT = Raised("PayloadInvalid", "it does not fit")
ALL = Selection()


class Login(BaseModel):
    user: str
    password: Annotated[str, Secret]


class Odd(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def _check(cls, name: str) -> str:
        raise KeyError(f"hunter2 {name}")


@pytest.fixture
def app() -> Iterator[App]:
    made = App("sqlite://", payload_limit=2_000)

    @made.task
    def send(to: str, login: Login | None = None, many: list[int] | None = None) -> None: ...

    @made.task
    def odd(what: Odd) -> None: ...

    made.client.store.migrate()
    yield made
    made.close()


@pytest.fixture
def store(app: App) -> Store:
    return app.client.store


def put_aside(store: Store, args: str, task: str = "send", **fields: Any) -> str:
    holder = Holder(store, ("send", "odd", "gone", "ship"))
    holder.claim(100)  # what was released before, so that this one comes first
    job = add(store, task, args=args, **fields)
    holder.settle(Quarantine(holder.take(), MISFIT))
    assert get(store, job).state is State.QUARANTINED
    return job


def test_edited_arguments_that_fit_let_the_job_go_on(app: App, store: Store) -> None:
    job = put_aside(store, '{"to": 5}')
    assert edit_and_release(store, job, {"to": "a@b.c"}, app) is State.READY
    found = get(store, job)
    assert (found.state, found.args) == (State.READY, '{"to":"a@b.c"}')
    assert told(store, job)[-1] == EventName.REPAIRED
    assert Holder(store, ("send",)).claim_ids() == [job]


def test_arguments_that_do_not_fit_leave_the_job_as_it_was(app: App, store: Store) -> None:
    job = put_aside(store, '{"to": 5}')
    with pytest.raises(PayloadInvalid, match="to: Input should be a valid string"):
        edit_and_release(store, job, {"to": 6}, app)
    with pytest.raises(PayloadInvalid, match="missing a required argument"):
        edit_and_release(store, job, {}, app)
    with pytest.raises(PayloadInvalid, match="limit is 2000"):
        edit_and_release(store, job, {"to": "x" * 3_000}, app)
    found = get(store, job)
    assert (found.state, found.args) == (State.QUARANTINED, '{"to": 5}')


def test_job_is_released_as_it_is_when_the_code_was_mended(app: App, store: Store) -> None:
    job = put_aside(store, '{"to": "a"}')
    assert edit_and_release(store, job, None, app) is State.READY
    assert get(store, job).args == '{"to":"a"}'


def test_what_the_code_marks_as_secret_by_now_is_masked_from_now_on(app: App, store: Store) -> None:
    job = put_aside(store, '{"to": "a", "login": {"user": "u", "password": "hunter2"}}')
    edit_and_release(store, job, None, app)
    assert get(store, job).secrets == ("login/password",)
    assert "hunter2" not in str(job_answer(get(store, job)))


def test_stars_of_a_masked_secret_stand_for_the_secret(app: App, store: Store) -> None:
    stored = '{"to": 5, "login": {"user": "u", "password": "hunter2"}}'
    job = put_aside(store, stored, secrets=("login/password",))
    shown = job_answer(get(store, job)).args
    assert shown["login"]["password"] == "***"
    edit_and_release(store, job, {**shown, "to": "a"}, app)
    found = get(store, job)
    assert '"hunter2"' in found.args
    assert found.secrets == ("login/password",)


def test_new_secret_takes_the_place_of_the_old_one(app: App, store: Store) -> None:
    stored = '{"to": 5, "login": {"user": "u", "password": "hunter2"}}'
    job = put_aside(store, stored, secrets=("login/password",))
    edit_and_release(store, job, {"to": "a", "login": {"user": "u", "password": "new"}}, app)
    assert '"new"' in get(store, job).args


def test_one_argument_is_changed_and_one_taken_out(app: App, store: Store) -> None:
    stored = '{"to": 5, "cc": "b", "login": {"user": "u", "password": "p"}}'
    job = put_aside(store, stored, secrets=("login/password",))
    with pytest.raises(InvalidOption, match="no argument 'bcc'"):
        change_and_release(store, job, {}, ["bcc"], app)
    with pytest.raises(PayloadInvalid, match="unexpected keyword argument 'cc'"):
        change_and_release(store, job, {"to": "a"}, [], app)
    assert change_and_release(store, job, {"to": "a"}, ["cc"], app) is State.READY
    assert json.loads(get(store, job).args) == {
        "to": "a",
        "login": {"user": "u", "password": "p"},
    }


def test_arguments_that_are_no_object_can_only_be_given_anew(app: App, store: Store) -> None:
    job = put_aside(store, "[1]")
    with pytest.raises(PayloadInvalid, match="no JSON object"):
        change_and_release(store, job, {"to": "a"}, [], app)
    assert edit_and_release(store, job, {"to": "a"}, app) is State.READY


def test_arguments_of_an_older_version_are_upgraded_when_they_are_released(
    app: App, store: Store
) -> None:
    @app.task(version=3)
    def ship(parcel: int, by: str) -> None: ...

    @ship.upgrade(from_version=1)
    def named(args: dict[str, Any]) -> dict[str, Any]:
        return {"parcel": args["id"], **{k: v for k, v in args.items() if k != "id"}}

    old = put_aside(store, '{"id": 5}', "ship")
    with pytest.raises(PayloadInvalid, match="no @ship.upgrade"):
        edit_and_release(store, old, None, app)

    @ship.upgrade(from_version=2)
    def by_air(args: dict[str, Any]) -> dict[str, Any]:
        return {"by": "air", **args}

    assert edit_and_release(store, old, None, app) is State.READY
    found = get(store, old)
    assert (json.loads(found.args), found.payload_version) == ({"parcel": 5, "by": "air"}, 3)
    # What is changed is what is stored; what is given whole is of today's version.
    part, whole = put_aside(store, '{"id": "x"}', "ship"), put_aside(store, '{"id": "x"}', "ship")
    change_and_release(store, part, {"id": 6, "by": "sea"}, [], app)
    assert json.loads(get(store, part).args) == {"parcel": 6, "by": "sea"}
    edit_and_release(store, whole, {"parcel": 7, "by": "sea"}, app)
    assert get(store, whole).payload_version == 3
    newer = put_aside(store, "{}", "ship", payload_version=4)
    with pytest.raises(PayloadInvalid, match="version 4 of the task, and this app has version 3"):
        edit_and_release(store, newer, None, app)


def test_validator_that_raises_anything_is_told_without_what_it_said(
    app: App, store: Store
) -> None:
    job = put_aside(store, '{"what": {"name": "n"}}', "odd")
    with pytest.raises(PayloadInvalid, match="raised KeyError") as refused:
        edit_and_release(store, job, None, app)
    assert "hunter2" not in str(refused.value)


def test_only_a_quarantined_job_can_be_repaired(app: App, store: Store) -> None:
    job = add(store, "send", args='{"to": "a"}')
    with pytest.raises(MoveRefused, match="is ready; only a quarantined job"):
        edit_and_release(store, job, None, app)
    with pytest.raises(JobNotFound):
        edit_and_release(store, "0" * 26, None, app)


def test_bulk_release_lets_go_what_fits_and_tells_why_the_others_stay(
    app: App, store: Store
) -> None:
    fits = [put_aside(store, '{"to": "a"}') for _ in range(2)]
    wrong = put_aside(store, '{"to": 5}')
    unknown = put_aside(store, "{}", "gone")
    assert release_many(store, ALL, app, dry_run=True).done == 2
    assert get(store, fits[0]).state is State.QUARANTINED
    tally = release_many(store, ALL, app)
    assert (tally.done, tally.refused) == (2, 2)
    reasons = {each.id: each.why for each in tally.refusals}
    assert "valid string" in reasons[wrong]
    assert "there is no task 'gone'" in reasons[unknown]
    assert [get(store, job).state for job in fits] == [State.READY] * 2
    assert [get(store, job).state for job in (wrong, unknown)] == [State.QUARANTINED] * 2
    assert release_many(store, ALL, app).done == 0


def test_bulk_release_passes_over_what_was_released_meanwhile(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = put_aside(store, '{"to": "a"}')
    seen: list[Job] = [get(store, job)]
    monkeypatch.setattr(Selection, "pages", lambda *_: iter([seen]))
    assert release_many(store, ALL, app).done == 1
    assert dict(release_many(store, ALL, app).skipped) == {"moved on meanwhile": 1}
