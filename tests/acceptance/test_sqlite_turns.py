"""Fair turns on one file: the short run of what `make prove` does for 20 s.

To see it fail, leave the turns to SQLite: `python scripts/turns.py --seconds 6 --bypass`.
"""

from pathlib import Path

from turns import LARGEST_RATIO, LONGEST_WAIT_SECONDS, run

# Where other tests use both cores, one renewal may be late; that many are not.
ONE_LATE_SECONDS = 4 * LONGEST_WAIT_SECONDS
NEARLY_ALL = 0.97


def test_four_processes_share_a_file_fairly_and_no_renewal_waits_long(tmp_path: Path) -> None:
    result = run(tmp_path, seconds=6)
    assert result.troubles == []
    assert result.wait() <= ONE_LATE_SECONDS, result.said()
    assert result.wait(NEARLY_ALL) <= LONGEST_WAIT_SECONDS, result.said()
    assert result.ratio <= LARGEST_RATIO, result.said()
    assert min(len(share.waits) for share in result.shares) > 10, result.said()
