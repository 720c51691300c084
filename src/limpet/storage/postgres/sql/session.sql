-- session: what a session holds and declares (register, renew and end are functions).
-- purpose: held: read the leases of a session.
--          declare: write its schedules, as a part of register.
-- params:  session: the session.
--          schedules: a JSON list.
-- returns: held: the jobs and their tokens.

-- statement: held
SELECT id, token FROM limpet.running WHERE session = %(session)s ORDER BY n

-- statement: declare
UPDATE limpet.session SET schedules = %(schedules)s WHERE id = %(session)s
