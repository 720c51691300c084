-- gate: what is known of permits (they are given and taken by functions, see functions/25_gate.sql).
-- purpose: reads only.
-- params:  by name; server may be NULL; reserved_for: how long a reservation lasts, in microseconds.
-- returns: as the domain has them.

-- statement: permits
SELECT server, holder, session, what, cpu, memory, heavy, at FROM limpet.permit
WHERE %(server)s::text IS NULL OR server = %(server)s
ORDER BY at, e

-- statement: reservations
SELECT v.server, v.job, v.at FROM limpet.reservation v
JOIN limpet.ready r ON r.id = v.job AND r.token = v.token
WHERE v.at > limpet.v1_time(%(now)s) - %(reserved_for)s::bigint
ORDER BY v.server
