"""A whole worker killed every second: the short run of what `make prove` does for 30 s."""

import pytest
from lifecycle.orphans import assert_no_orphans
from lifecycle.place import Place, allowance
from lifecycle.storm import storm

RECOVERED_AFTER_SECONDS = 1.0

EVERY_STORE = True


@pytest.mark.timeout(180)
def test_nothing_is_lost_doubled_or_written_late_in_a_storm_of_kills(one_place: Place) -> None:
    found = storm(one_place, jobs=200, workers=3, kills=4, seed=8)
    assert found.troubles == [], found.summary()
    assert found.succeeded == 200
    assert found.kills == 4
    assert found.orphans > 0, "the kills hit nobody"
    assert found.left_at_last_kill > 0, "there was nothing left to kill"
    assert found.stale_writes > 0
    assert found.stale_refused == found.stale_writes
    limit = RECOVERED_AFTER_SECONDS + 2 * allowance()
    assert found.longest_recovery_seconds <= limit, found.summary()
    assert_no_orphans(one_place)
