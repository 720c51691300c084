"""PostgreSQL over TLS: what libpq knows stands in the URL, and workers and clients use it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from contract.driver import Holder, add
from servers.postgres import PostgresServer, server_user
from servers.tls import Authority

from limpet.domain.errors import StoreRefused, StoreUnavailable
from limpet.storage.contract.bell import Topic
from limpet.storage.registry import open_store

RULES = "hostssl all all 127.0.0.1/32 scram-sha-256\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    """One that talks over TLS only, to those who know a password."""
    # Not below pytest's own folder, which the server's user cannot read.
    with TemporaryDirectory(prefix="limpet-tls-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # The wheel's has no TLS; Debian's has.
        started = PostgresServer(folder / "server", version=15).start()
        with psycopg.connect(started.url, autocommit=True) as raw:
            raw.execute("ALTER ROLE postgres PASSWORD 's3cret'")
        started.stop()
        for file, own in ((authority.certificate, "cert"), (authority.key, "key")):
            copy = Path(shutil.copy(file, started.data / own))
            copy.chmod(0o600)
            if (user := server_user()) is not None:
                os.chown(copy, user, user)
        (started.data / "pg_hba.conf").write_text(RULES)
        started.settings |= {
            "ssl": "on", "ssl_cert_file": str(started.data / "cert"),
            "ssl_key_file": str(started.data / "key"),
        }  # fmt: skip
        yield started.start()
        started.kill()


def url_of(server: PostgresServer, **settings: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    return (
        f"postgresql://postgres:s3cret@localhost:{server.port}/postgres?hostaddr=127.0.0.1&{query}"
    )


def test_store_is_used_over_tls(server: PostgresServer, authority: Authority) -> None:
    url = url_of(server, sslmode="verify-full", sslrootcert=authority.ca)
    with closing(open_store(url)) as store:
        add(store)
        with closing(store.listen(Topic.READY)) as bell:
            add(store)
            assert bell.wait(timedelta(seconds=10))
        Holder(store).take()
        assert store.invariants() == ()
        assert "s3cret" not in store.info().url
    with psycopg.connect(url) as raw:
        row = raw.execute(
            "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl s "
            "JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        assert row[0] == row[1] > 0


def test_server_that_cannot_prove_its_name_is_refused(
    server: PostgresServer, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path)
    for url in (
        url_of(server, sslmode="verify-full", sslrootcert=stranger.ca),
        url_of(server, sslmode="verify-full", sslrootcert=authority.ca).replace(
            "@localhost", "@elsewhere"
        ),
    ):
        with closing(open_store(url)) as store, pytest.raises(StoreUnavailable) as caught:
            add(store)
        assert "certificate" in str(caught.value)
        assert "s3cret" not in str(caught.value)


def test_client_that_will_not_use_tls_is_told(server: PostgresServer) -> None:
    with (
        closing(open_store(url_of(server, sslmode="disable"))) as store,
        pytest.raises(StoreRefused, match="no encryption"),
    ):
        add(store)
