"""A result with counts and warnings: checked, stored as JSON, given back as it was."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from limpet import InvalidOption, PayloadInvalid, Result, Secret
from limpet.payload.json_text import from_text
from limpet.payload.signature import Signature


@dataclass
class Sent:
    address: str
    token: Annotated[str, Secret]


def test_it_is_stored_as_an_object_and_comes_back_with_its_type() -> None:
    def send() -> Result[Sent]: ...  # type: ignore[empty-body]

    signature = Signature("send", send)
    said = Result(Sent("a@b.c", "xyz"), counts={"emails": 42}, warnings=["slow"])
    packed = signature.pack_result(said)
    assert from_text(packed.args) == {
        "value": {"address": "a@b.c", "token": "xyz"},
        "counts": {"emails": 42},
        "warnings": ["slow"],
    }
    assert packed.secrets == ("value/token",)
    assert signature.unpack_result(packed.args) == said
    assert said.totals() == (("emails", 42), ("warnings", 1))


def test_nothing_to_say_is_nothing_to_count() -> None:
    assert Result(None).totals() == ()
    assert Result(1, {"rows": 0}).totals() == (("rows", 0),)


@pytest.mark.parametrize("value", [None, 3, {"a": [1]}])
def test_without_an_annotation_it_comes_back_too(value: Any) -> None:
    def plain():  # type: ignore[no-untyped-def]
        ...

    signature = Signature("plain", plain)
    said = Result(value, {"rows": 1})
    assert signature.unpack_result(signature.pack_result(said).args) == said


def test_a_task_may_return_none_instead() -> None:
    def perhaps() -> Result[int] | None: ...

    signature = Signature("perhaps", perhaps)
    assert signature.unpack_result(signature.pack_result(None).args) is None
    assert signature.unpack_result(signature.pack_result(Result(1)).args) == Result(1)


def test_a_value_may_be_none_like_any_result() -> None:
    def counted() -> Result[int]: ...  # type: ignore[empty-body]

    signature = Signature("counted", counted)
    assert signature.unpack_result(signature.pack_result(Result(None)).args) == Result(None)


def test_an_annotation_that_says_otherwise_is_told() -> None:
    def number() -> int: ...  # type: ignore[empty-body]

    def counted() -> Result[int]: ...  # type: ignore[empty-body]

    with pytest.raises(PayloadInvalid, match="number returned Result, but is annotated"):
        Signature("number", number).pack_result(Result(1))
    with pytest.raises(PayloadInvalid, match="counted returned int, but is annotated"):
        Signature("counted", counted).pack_result(1)
    with pytest.raises(PayloadInvalid, match="return"):
        Signature("counted", counted).pack_result(Result("many"))


def test_an_object_of_the_same_form_stays_one_where_the_task_says_so() -> None:
    def tree() -> dict[str, Any]: ...  # type: ignore[empty-body]

    made = {"value": 1, "counts": {}, "warnings": []}
    signature = Signature("tree", tree)
    assert signature.unpack_result(signature.pack_result(made).args) == made


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"counts": {"emails": -1}}, "a whole number from 0 up"),
        ({"counts": {"emails": True}}, "a whole number from 0 up"),
        ({"counts": {"emails": 1.5}}, "a whole number from 0 up"),
        ({"counts": {"all the emails": 1}}, "a name has"),
        ({"counts": {"warnings": 1}}, "choose another name"),
        ({"counts": ["emails"]}, "write names and numbers"),
        ({"counts": {f"c{n}": 1 for n in range(101)}}, "at most 100"),
        ({"warnings": "slow"}, "a list of texts"),
        ({"warnings": [1]}, "a list of texts"),
    ],
)
def test_what_cannot_be_counted_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Result(1, **wrong)
