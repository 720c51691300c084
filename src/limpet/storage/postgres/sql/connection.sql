-- connection: the settings of a connection, and its transactions.
-- purpose: every statement sees what was committed before it. A client that stops in the middle of a
--          transaction is cut off before its jobs can pass to another session.
-- params:  by name; database.py fills in those of begin_lent.
-- returns: set_up: whether there is a pooler between client and server; the other columns are not used.
--          all others: nothing that is used.

-- statement: set_up
-- Once, when a connection is opened. A pooler numbers its connections itself, and lends a connection of the
-- server for each transaction: settings would stay behind for the next client. So with a pooler they are
-- set for this statement only, which has no effect.
SELECT pg_backend_pid() <> %(pid)s,
       set_config('default_transaction_isolation', 'read committed', pg_backend_pid() <> %(pid)s),
       set_config('idle_in_transaction_session_timeout', %(idle)s, pg_backend_pid() <> %(pid)s),
       set_config('lock_timeout', %(lock)s, pg_backend_pid() <> %(pid)s),
       set_config('statement_timeout', %(statement)s, pg_backend_pid() <> %(pid)s),
       set_config('jit', 'off', pg_backend_pid() <> %(pid)s),
       -- So that a function which another role has put into `public` is never called for a built-in one.
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

-- statement: no_timeout
-- For verbs that read everything.
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
