"""A weight says in plain numbers what a job takes, and refuses what says nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.domain.errors import InvalidOption
from limpet.domain.size import in_unit, size, spoken_size
from limpet.domain.weight import HEAVY, Weight, weight_of


@pytest.mark.parametrize(
    ("text", "in_bytes"),
    [
        ("2GiB", 2 << 30),
        ("512MB", 512_000_000),
        ("1.5 GiB", 3 << 29),
        ("64k", 64_000),
        (4096, 4096),
    ],
)
def test_memory_is_read_as_people_write_it(text: str | int, in_bytes: int) -> None:
    assert Weight(memory=text).memory == in_bytes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"cpu": -1}, "Weight(cpu=-1): write a number of cores"),
        ({"cpu": float("nan")}, "write a number of cores"),
        ({"cpu": float("inf")}, "write a number of cores"),
        ({"cpu": True}, "write a number of cores"),
        ({"cpu": "2"}, "Weight(cpu='2'): write a number of cores"),
        ({"cpu": 2 << 30}, "write a number of cores"),
        ({"memory": -5}, "Weight(memory=…) is -5; write a size"),
        ({"memory": "lots"}, "Weight(memory=…) is 'lots'; write a size"),
        ({"memory": 1.5}, "write a size"),
        ({"memory": "2"}, 'Weight(memory=\'2\'): write a unit, as in "2GiB" or "2MB"'),
        ({"memory": "9999999TiB"}, "write a size"),
        ({"cpu": 1, "heavy": 1}, "Weight(heavy=1): write True or False"),
        ({}, "Weight() weighs nothing"),
        ({"cpu": 0.0, "memory": "0"}, "Weight() weighs nothing"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is looked at below
        Weight(**options)
    assert isinstance(refused.value, InvalidOption)
    assert sentence in str(refused.value)


def test_cpu_is_whole_in_thousandths_so_that_sums_are_exact() -> None:
    assert Weight(cpu=0.1).millicores * 3 == Weight(cpu=0.3).millicores == 300
    assert Weight(cpu=0.1 + 0.2).cpu == 0.3
    assert Weight(cpu=0.00001).millicores == 1


@given(
    st.floats(0.001, 1000),
    st.integers(0, 1 << 53),
    st.booleans(),
)
def test_a_weight_survives_its_record(cpu: float, memory: int, heavy: bool) -> None:
    weight = Weight(cpu, memory, heavy=heavy)
    assert weight_of(json.loads(json.dumps(weight.record()))) == weight


def test_the_record_is_small_and_of_a_later_version_what_is_known_is_read() -> None:
    assert HEAVY.record() == {"heavy": True}
    assert Weight(cpu=1, memory="2GiB").record() == {"cpu": 1.0, "memory": 2 << 30}
    assert weight_of({"cpu": 2, "gpu": 1}) == Weight(cpu=2)


def test_a_size_is_said_in_the_unit_of_the_larger() -> None:
    assert spoken_size(2 << 30) == "2 GiB"
    assert spoken_size(1_300_000_000) == "1.2 GiB"
    assert spoken_size(100) == "100 B"
    assert in_unit(300 << 20, 2 << 30) == ("0.3", "GiB")


def test_a_size_below_the_least_is_refused() -> None:
    with pytest.raises(InvalidOption, match="at least 64MB"):
        size("1MB", what="max_rss", least=64_000_000)
