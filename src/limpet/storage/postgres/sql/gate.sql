-- gate: permits and reservations (functions/25_gate.sql writes them).
-- purpose: reads only.
-- params:  by name.
--          server: a host, or NULL for all.
--          reserved_for: how long a reservation lasts, in microseconds.
-- returns: columns in the order of domain.permit.PermitRecord and Reservation.

-- statement: permits
SELECT server, holder, session, what, cpu, memory, heavy, at FROM limpet.permit
WHERE %(server)s::text IS NULL OR server = %(server)s
ORDER BY at, e

-- statement: reservations
SELECT v.server, v.job, v.at,
       (SELECT s.name FROM limpet.session s WHERE v.token = -1 AND s.id = v.job)
FROM limpet.reservation v
WHERE abs(v.at - limpet.v1_time(%(now)s)) < %(reserved_for)s::bigint
  AND limpet.v1_holder_waits(v.job, v.token)
ORDER BY v.server
