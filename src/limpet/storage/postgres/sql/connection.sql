-- connection: how a connection is set, once, when it is opened.
-- purpose: every statement sees what was committed before it; a client that stops in the middle of a
--          transaction is cut off before its lease can pass to another.
-- params:  by name.
-- returns: nothing that is used.

-- statement: set_up
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('idle_in_transaction_session_timeout', %(idle)s, false),
       set_config('lock_timeout', %(lock)s, false),
       set_config('statement_timeout', %(statement)s, false),
       set_config('jit', 'off', false)

-- statement: begin
BEGIN ISOLATION LEVEL READ COMMITTED

-- statement: begin_reading
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY

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
