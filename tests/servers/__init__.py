"""Real servers for the tests: Redis, Valkey and PostgreSQL, on free ports, gone with the tests."""

from servers.postgres import PostgresServer
from servers.process import NoServer
from servers.redis import RedisServer
from servers.shared import shared_url

__all__ = ["NoServer", "PostgresServer", "RedisServer", "shared_url"]
