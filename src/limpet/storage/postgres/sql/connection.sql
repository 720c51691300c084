-- connection: how a connection is set.
-- purpose: every statement sees what was committed before it; a client that stops in the middle of a
--          transaction is cut off before its lease can pass to another.
-- params:  by name; those of begin_lent are filled in by database.py.
-- returns: set_up: whether a pooler stands between; else nothing that is used.

-- statement: set_up
-- Once, when it is opened. A pooler has a number of its own for the connection, and lends one of the
-- server's for each transaction: what were set there would stay behind for whoever gets it next. So
-- there it is set for this statement only, which is for nothing.
SELECT pg_backend_pid() <> %(pid)s,
       set_config('default_transaction_isolation', 'read committed', pg_backend_pid() <> %(pid)s),
       set_config('idle_in_transaction_session_timeout', %(idle)s, pg_backend_pid() <> %(pid)s),
       set_config('lock_timeout', %(lock)s, pg_backend_pid() <> %(pid)s),
       set_config('statement_timeout', %(statement)s, pg_backend_pid() <> %(pid)s),
       set_config('jit', 'off', pg_backend_pid() <> %(pid)s),
       -- So that a function which another role has put into `public` is not taken for the server's.
       set_config('search_path', 'pg_catalog, pg_temp', pg_backend_pid() <> %(pid)s)

-- statement: begin_lent
-- Through a pooler, in one message: the same limits, for this transaction.
BEGIN ISOLATION LEVEL {level};
SET LOCAL idle_in_transaction_session_timeout = {idle};
SET LOCAL lock_timeout = {lock};
SET LOCAL statement_timeout = {statement};
SET LOCAL jit = off;
SET LOCAL search_path = pg_catalog, pg_temp

-- statement: begin
BEGIN ISOLATION LEVEL {level}

-- statement: patient
-- For what reads everything.
SELECT set_config('statement_timeout', '0', true)

-- statement: commit
COMMIT

-- statement: rollback
ROLLBACK

-- statement: savepoint
SAVEPOINT limpet_enqueue

-- statement: release
RELEASE SAVEPOINT limpet_enqueue

-- statement: back
ROLLBACK TO SAVEPOINT limpet_enqueue
