"""PgBouncer in front of a PostgreSQL, from the system or fetched from Debian."""

import signal
import socket
from pathlib import Path

from servers.debian import environment, found, sentence
from servers.postgres import PostgresServer, readable, server_user
from servers.process import NoServer, Process, free_port

# Everything that is not said is as PgBouncer has it by itself.
_SETTINGS = {"default_pool_size": "10", "max_client_conn": "200"}


class PgBouncer:
    """One pooler on a port of its own; `settings` are lines of its configuration."""

    def __init__(
        self, folder: Path, server: PostgresServer, *, mode: str = "transaction", **settings: str
    ) -> None:
        """`folder` must be open to the server's user, or not be there yet."""
        program = found("pgbouncer")
        if program is None:
            raise NoServer(sentence(["pgbouncer"], "there is none; `make servers` fetches it"))
        self._program = readable(program.parent, program.name) / program.name
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._user = server_user()
        users = folder / "users.txt"
        users.write_text('"postgres" ""\n')
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(users),
            "pool_mode": mode,
            **_SETTINGS,
            **settings,
        }
        self._settings = folder / "pgbouncer.ini"
        self._settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        self._log = folder / "pgbouncer.log"
        self._process = Process(self._log)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> "PgBouncer":
        self._process.start(
            [self._program, self._settings], self._answers, user=self._user,
            environment=environment(self._program),
        )  # fmt: skip
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        self._process.stop(signal.SIGKILL)
