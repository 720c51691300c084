"""The server's clock may be stepped; then no lease is taken for over before its holder knows."""

from limpet.storage.postgres.recover import ClockWatch

SECOND = 1_000_000
LEASE = 10 * SECOND


class Boot:
    now = 5_000 * SECOND

    def __call__(self) -> int:
        return self.now


def test_step_of_the_servers_clock_is_not_taken_for_the_end_of_leases() -> None:
    boot = Boot()
    watch = ClockWatch(boot)
    server = 1_000_000 * SECOND
    assert watch.trusts(server, LEASE)
    boot.now += SECOND
    assert watch.trusts(server + SECOND, LEASE)
    for stepped in (31 * SECOND, -29 * SECOND):
        boot.now += SECOND
        server += SECOND + stepped
        assert not watch.trusts(server, LEASE)
        boot.now += LEASE - 1
        server += LEASE - 1
        assert not watch.trusts(server, LEASE)
        boot.now += 1
        server += 1
        assert watch.trusts(server, LEASE)
