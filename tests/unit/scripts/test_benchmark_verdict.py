"""A benchmark whose peers do not stand to each other as they are known to says so."""

import expected
import pytest
from figures import Figures


def _figures(**slowed: float) -> Figures:
    figures = Figures()
    for name, rates in expected.PEERS.items():
        figures.add(name, "jobs/s", rates.drain * 1.6 * slowed.get(name.split()[0], 1))
    return figures


def test_peers_that_are_all_faster_alike_do_not_void_a_run() -> None:
    assert expected.too_slow(_figures(), "jobs/s", "drain") == []


def test_one_peer_below_seven_tenths_of_its_ratio_voids_a_run() -> None:
    (said,) = expected.too_slow(_figures(BullMQ=0.69), "jobs/s", "drain")
    assert said == "BullMQ on Redis: drain is 0.69 of its known ratio to the others."


@pytest.mark.parametrize("share", [0.71, 3.0])
def test_a_peer_near_or_above_its_ratio_does_not(share: float) -> None:
    assert expected.too_slow(_figures(BullMQ=share), "jobs/s", "drain") == []


def test_a_peer_that_was_not_measured_voids_nothing() -> None:
    assert expected.too_slow(Figures(), "jobs/s", "drain") == []
