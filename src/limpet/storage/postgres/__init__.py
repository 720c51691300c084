"""The PostgreSQL store: a schema of its own, functions for the hot path, psycopg 3."""
