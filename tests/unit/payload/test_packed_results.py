"""Every result that a task may return is packed so that the supervisor takes it, or refused."""

import enum
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from limpet import InvalidOption, PayloadInvalid, Result, Secret
from limpet.domain.lease import Lease
from limpet.domain.transition import Complete
from limpet.payload.signature import Packed, Signature
from limpet.worker.wire import frames

DECODER = frames.from_executor(1_000_000)


class Name(str):
    """A text of a class of its own."""


class Number(int):
    """A number of a class of its own."""


class Level(enum.IntEnum):
    ONE = 1


@pytest.fixture
def deep() -> Iterator[None]:
    """As a task's module may have it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


def arrives(packed: Packed, counts: tuple[tuple[str, int], ...] = ()) -> None:
    """As the supervisor decodes it."""
    complete = Complete(Lease("0" * 26, "0" * 26, 1), packed.args, packed.secrets, counts)
    body = frames.pack_done([complete])[frames.HEADER_BYTES :]
    assert DECODER.decode(body) == frames.DoneFrame([complete])


def returns(hint: Any) -> Signature:
    def task() -> Any: ...

    task.__annotations__["return"] = hint
    return Signature("task", task)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("hint", [dict[str, Annotated[str, Secret]],
                                  Result[dict[str, Annotated[str, Secret]]]])  # fmt: skip
def test_a_secret_in_a_field_with_a_zero_in_its_name_is_refused_in_a_sentence(hint: Any) -> None:
    value: Any = {"a\0b": "hidden"}
    value = value if hint == dict[str, Annotated[str, Secret]] else Result(value)
    with pytest.raises(PayloadInvalid, match="zero"):
        returns(hint).pack_result(value)


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("hint", [Any, list, list[Any], Result[Any], Result[list[Any]]])
@pytest.mark.parametrize("levels", [201, 260, 900, 3_000])
def test_a_result_is_nested_as_deeply_as_a_supervisor_reads_whatever_the_limit_of_recursion(
    hint: Any, levels: int
) -> None:
    around = "Result" in str(hint)
    value = nested(levels)
    with pytest.raises(PayloadInvalid, match="nested too deeply"):
        returns(hint).pack_result(Result(value) if around else value)


@pytest.mark.usefixtures("deep")
def test_arguments_are_nested_no_deeper_than_a_result() -> None:
    def takes(value: Any) -> None: ...

    signature = Signature("takes", takes)
    with pytest.raises(PayloadInvalid, match="nested too deeply"):
        signature.pack((nested(200),), {})
    deepest = signature.pack((nested(199),), {})
    assert signature.unpack(deepest.args) == {"value": nested(199)}
    packed = returns(Any).pack_result(nested(200))
    sys.setrecursionlimit(1_000)
    arrives(packed)
    assert json.loads(packed.args) == nested(200)


def test_counts_that_were_changed_after_they_were_checked_are_checked_again() -> None:
    for name, number in (("late", -1), ("late", 2**53), ("no name", 1), ("late", 1.5), (1, 1)):
        result = Result(1)
        result.counts[name] = number  # type: ignore[index]
        with pytest.raises((PayloadInvalid, TypeError), match="count"):
            returns(Any).pack_result(result)


def test_counts_of_classes_of_their_own_arrive_as_plain_ones() -> None:
    result = Result(1, {Name("emails"): Number(3), "level": Level.ONE}, [Name("late")])
    arrives(returns(Any).pack_result(result), result.totals())
    assert {type(part) for count in result.totals() for part in count} == {str, int}


def test_a_result_of_more_digits_than_others_read_arrives() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        arrives(returns(Any).pack_result([10**5_000]))
    finally:
        sys.set_int_max_str_digits(before)


def test_too_many_counts_are_refused_where_they_are_made() -> None:
    with pytest.raises(InvalidOption):
        Result(1, {f"n{n}": n for n in range(101)})
