-- session: what a session holds (register, renew and end are functions).
-- purpose: reads only.
-- params:  the session.
-- returns: the jobs and their tokens.

-- statement: held
SELECT id, token FROM limpet.running WHERE session = %(session)s ORDER BY n
