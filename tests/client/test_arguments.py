"""Arguments: checked against the signature at both ends, stored as JSON, secrets masked."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from client.hand import Hand
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretBytes, SecretStr

from limpet import App, InvalidOption, PayloadInvalid, PayloadTooLarge, Secret
from limpet.domain.job import masked
from limpet.domain.transition import Complete
from limpet.ops.inspect import show_job
from limpet.payload.json_text import from_text, to_text
from limpet.payload.signature import Signature


class Colour(Enum):
    RED = "red"


class Template(BaseModel):
    name: str
    token: SecretStr
    size: int = Field(alias="theSize", default=1)


@dataclass
class Login:
    user: str
    password: Annotated[str, Secret]


def both_ways(function: Any, **arguments: Any) -> dict[str, Any]:
    signature = Signature("task", function)
    return signature.unpack(signature.pack((), arguments).args)


def test_annotated_values_come_back_as_they_went() -> None:
    def task(
        when: datetime,
        id: UUID,
        colour: Colour,
        where: Path,
        wait: timedelta,
        many: list[tuple[int, str]],
        template: Template,
        maybe: int | None = None,
        **rest: int,
    ) -> None: ...

    given = {
        "when": datetime(2030, 1, 1, tzinfo=UTC),
        "id": UUID(int=7),
        "colour": Colour.RED,
        "where": Path("/tmp/x"),
        "wait": timedelta(seconds=90),
        "many": [(1, "a")],
        "template": Template(name="n", token=SecretStr("t"), theSize=3),
        "maybe": None,
        "extra": 5,
    }
    assert both_ways(task, **given) == given


def test_a_value_that_fits_is_turned_into_its_type() -> None:
    def task(n: int, template: Template) -> None: ...

    back = both_ways(task, n="5", template={"name": "n", "token": "t"})
    assert back["n"] == 5
    assert isinstance(back["template"], Template)


def test_positional_arguments_are_stored_by_name() -> None:
    def task(a: int, b: int = 2) -> None: ...

    assert Signature("task", task).pack((1,), {}).args == '{"a":1}'


@pytest.mark.parametrize(
    ("arguments", "words", "field"),
    [
        ({}, "missing a required argument: 'to'", "to"),
        ({"to": "x", "cc": "y"}, "unexpected keyword argument 'cc'", "cc"),
        ({"to": 5}, "task: to: Input should be a valid string", "to"),
        ({"to": "x", "when": "never"}, "task: when: Input should be a valid datetime", "when"),
        ({"to": "x", "template": {"name": "n"}}, "template.token: Field required", "template"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_field_and_the_reason(
    arguments: dict[str, Any], words: str, field: str
) -> None:
    def task(to: str, when: datetime | None = None, template: Template | None = None) -> None: ...

    with pytest.raises(PayloadInvalid, match=words) as caught:
        Signature("task", task).pack((), arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "value is a object, which cannot be stored as JSON"),
        ({1: 2}, "every key is a text"),
        ([{"a": {1, 2}}], r"value\[0\].a is a set"),
        (math.nan, "is nan, which JSON cannot hold"),
        (math.inf, "is inf"),
        (b"x", "is a bytes"),
        (datetime(2030, 1, 1, tzinfo=UTC), "is a datetime"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, words: str) -> None:
    def task(value) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(PayloadInvalid, match=words):
        Signature("task", task).pack((value,), {})


def test_a_value_that_contains_itself_or_has_no_end_is_refused() -> None:
    def task(value) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(PayloadInvalid, match="cannot be stored as JSON"):
        Signature("task", task).pack((10**5000,), {})

    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadInvalid, match="contains itself"):
        Signature("task", task).pack((loop,), {})


def test_plain_values_without_annotation_come_back_equal() -> None:
    def task(value) -> None: ...  # type: ignore[no-untyped-def]

    value = {"a": [1, 2.5, None, True, "ü\u0000"], "big": 2**80}
    assert both_ways(task, value=value) == {"value": value}


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()))
def test_plain_arguments_are_written_as_everything_else_is(value: dict[str, Any]) -> None:
    """They take a shorter way; inside a list the same values take the other one."""
    assert f"[{to_text(value, what='it')}]" == to_text([value], what="it")
    assert from_text(to_text(value, what="it")) == value


def test_a_signature_that_cannot_be_stored_by_name_is_refused() -> None:
    def positional(a: int, /) -> None: ...
    def spread(*a: int) -> None: ...
    def taken(within: int) -> None: ...

    for function, words in ((positional, "'a' cannot"), (spread, "'a'"), (taken, "'within' is")):
        with pytest.raises(InvalidOption, match=words):
            Signature("task", function)


def test_an_annotation_that_cannot_be_stored_is_refused() -> None:
    class Odd: ...

    def task(value: Odd) -> None: ...

    task.__annotations__["value"] = Odd
    with pytest.raises(InvalidOption, match="'value' is annotated with .*Odd"):
        Signature("task", task).pack((Odd(),), {})


def test_a_model_that_cannot_be_read_back_is_refused_when_enqueued() -> None:
    class OneWay(BaseModel):
        size: int = Field(validation_alias="in", serialization_alias="out")

    def task(model: BaseModel) -> None: ...

    task.__annotations__["model"] = OneWay
    with pytest.raises(PayloadInvalid, match="model.in: Field required"):
        Signature("task", task).pack((OneWay.model_validate({"in": 1}),), {})


def test_a_choice_of_types_comes_back_as_the_one_that_went() -> None:
    def task(value: UUID | str) -> None: ...

    assert both_ways(task, value=UUID(int=1)) == {"value": UUID(int=1)}


def test_a_strict_model_is_read_back() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        at: datetime

    def task(strict: BaseModel) -> None: ...

    task.__annotations__["strict"] = Strict
    given = Strict(at=datetime(2030, 1, 1, tzinfo=UTC))
    assert both_ways(task, strict=given) == {"strict": given}


Pin = Annotated[str, Secret]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    maybe: Pin | None = None
    when: Annotated[datetime | None, Secret] = None


class Token(RootModel[SecretStr]): ...


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Pin | None, "hunter2"),
        (list[Pin], ["hunter2"]),
        (dict[str, Pin], {"a": "hunter2"}),
        (tuple[int, Pin], (1, "hunter2")),
        (Loose, Loose(maybe="hunter2")),
        (Annotated[Template, Secret], Template(name="hunter2", token=SecretStr("x"))),
        (Token, Token(SecretStr("hunter2"))),
        (SecretBytes, SecretBytes("hunter2é".encode())),
        (list[Login], [Login("me", "hunter2")]),
    ],
    ids=str,
)
def test_a_secret_is_found_at_any_depth_and_comes_back_whole(hint: Any, value: Any) -> None:
    def task(value: Any) -> None: ...

    task.__annotations__["value"] = hint
    signature = Signature("task", task)
    packed = signature.pack((value,), {})
    assert signature.unpack(packed.args)["value"] == value
    shown = masked(from_text(packed.args), packed.secrets)
    assert "hunter2" in packed.args
    assert "hunter2" not in str(shown)
    assert "hunter2" not in repr(packed)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (set[SecretStr], {SecretStr("hunter2")}),
        (Loose, Loose.model_validate({"more": SecretStr("hunter2")})),
    ],
    ids=["set", "extra field"],
)
def test_a_value_that_would_come_back_as_another_is_refused(hint: Any, value: Any) -> None:
    def task(value: Any) -> None: ...

    task.__annotations__["value"] = hint
    with pytest.raises(PayloadInvalid, match="would come back from JSON as another value"):
        Signature("task", task).pack((value,), {})


def test_secret_bytes_that_are_no_text_are_refused() -> None:
    def task(key: SecretBytes) -> None: ...

    with pytest.raises(PayloadInvalid, match="base64"):
        Signature("task", task).pack((SecretBytes(b"\xff\xfe"),), {})


def test_a_secret_in_a_result_is_stored_whole_and_shown_masked(app: App) -> None:
    @app.task
    def fetch() -> Template: ...  # type: ignore[empty-body]

    job = fetch.enqueue()
    hand = Hand(app)
    result = fetch.signature.pack_result(Template(name="n", token=SecretStr("hunter2")))
    hand.exchange(Complete(hand.exchange().claimed[0].lease, *result))
    assert job.result("5s").token.get_secret_value() == "hunter2"
    assert "hunter2" not in str(show_job(app.client.store, job.id))
    assert show_job(app.client.store, job.id).result["name"] == "n"
    assert "hunter2" not in repr(job.details)


def test_secrets_are_stored_whole_and_shown_masked(app: App) -> None:
    @app.task
    def login(
        login: Login,
        template: Template,
        key: SecretBytes,
        pin: Annotated[str, Secret],
        tokens: list[SecretStr],
        open_: int = 1,
    ) -> None: ...

    def call() -> Any:
        return login.call(
            login=Login("me", "hunter2"),
            template=Template(name="n", token=SecretStr("hunter2")),
            key=SecretBytes(b"hunter2"),
            pin="hunter2",
            tokens=[SecretStr("hunter2")],
        )

    assert "hunter2" not in repr(call())
    job = app.enqueue_many([call()])[0]
    assert "hunter2" not in repr(job)
    shown = show_job(app.client.store, job.id)
    assert "hunter2" not in str(shown)
    assert shown.args["template"]["name"] == "n"
    assert shown.args["login"] == {"user": "me", "password": "***"}
    arguments = login.signature.unpack(job.details.args)
    assert arguments["login"] == Login("me", "hunter2")
    assert arguments["template"].token.get_secret_value() == "hunter2"
    assert arguments["key"].get_secret_value() == b"hunter2"
    assert arguments["pin"] == "hunter2"
    assert arguments["tokens"][0].get_secret_value() == "hunter2"


def test_an_error_never_tells_the_value_of_a_secret() -> None:
    class Strict(BaseModel):
        pin: Annotated[int, Secret]

    def task(strict: BaseModel) -> None: ...

    task.__annotations__["strict"] = Strict
    with pytest.raises(PayloadInvalid) as caught:
        Signature("task", task).pack((), {"strict": {"pin": "hunter2"}})
    assert "hunter2" not in str(caught.value)


def test_a_payload_over_the_limit_is_refused_and_nothing_is_written(url: str) -> None:
    app = App(url, payload_limit=1000)

    @app.task
    def work(text: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match="the limit is 1000"):
        work.enqueue(text="ü" * 500)
    with pytest.raises(PayloadTooLarge):
        app.enqueue_many([work.call(text="ok"), work.call(text="x" * 2000)])
    work.enqueue(text="x" * 900)
    assert sum(app.client.store.queues()[0].counts.values()) == 1
    app.close()


def test_the_limit_is_a_mebibyte_by_default(app: App) -> None:
    @app.task
    def work(text: str) -> None: ...

    work.enqueue(text="x" * (1024 * 1024 - 20))
    with pytest.raises(PayloadTooLarge, match="1048576"):
        work.enqueue(text="x" * (1024 * 1024))
