-- gate: permits of a host, and its reservation.
-- purpose: what a claim, or a caller outside of workers, may take beside what is taken already.
-- params:  by name; give takes tuples, in the order of the columns.
--          :since: for permits, those older than this wall time show in the measurement; for
--              reservations, those confirmed before it are void.
--          :until: reservations confirmed from this time on are void, because the clock was set back.
-- returns: taken: columns in the order of domain.permit.Taken.
--          reserved: the job's number, or the caller's session.
--          there, caller_there: a row if another server is reserved for the same job or caller.
--          ready_at, waits_since: since when the job, or the caller, waits.
--          has: a row if the holder has a permit; any: a row if there is any permit.
--          permits, reservations: columns in the order of the domain's records.

-- statement: taken
SELECT count(*), coalesce(sum(heavy), 0), coalesce(sum(cpu), 0), coalesce(sum(memory), 0),
       coalesce(sum(cpu) FILTER (WHERE at > :since), 0),
       coalesce(sum(memory) FILTER (WHERE at > :since), 0)
FROM limpet_permit WHERE server = :server

-- statement: reserved
SELECT r.n FROM limpet_reservation r
JOIN limpet_job j ON j.n = r.n AND j.token = r.token AND j.state = 'ready'
WHERE r.server = :server AND r.at > :since AND r.at < :until
UNION ALL
SELECT r.session FROM limpet_reservation r
JOIN limpet_session s ON s.id = r.session AND s.state <> 'dead'
WHERE r.server = :server AND r.n = 0 AND r.at > :since AND r.at < :until
  AND NOT EXISTS (SELECT 1 FROM limpet_permit p WHERE p.holder = r.session)

-- statement: there
SELECT 1 FROM limpet_reservation r
JOIN limpet_job j ON j.n = r.n AND j.token = r.token
WHERE r.n = :n AND r.server <> :server AND r.at > :since AND r.at < :until

-- statement: ready_at
SELECT ready_at FROM limpet_job WHERE n = :n

-- statement: caller_there
SELECT 1 FROM limpet_reservation r
WHERE r.session = :session AND r.n = 0 AND r.server <> :server AND r.at > :since AND r.at < :until

-- statement: waits_since
SELECT registered_at FROM limpet_session WHERE id = :session

-- statement: reserve
INSERT INTO limpet_reservation (server, n, token, at)
SELECT :server, n, token, :now FROM limpet_job WHERE n = :n
ON CONFLICT (server) DO UPDATE SET n = excluded.n, token = excluded.token, at = excluded.at

-- statement: reserve_caller
INSERT INTO limpet_reservation (server, n, token, at, session) VALUES (:server, 0, 0, :now, :session)
ON CONFLICT (server) DO UPDATE
SET n = excluded.n, token = excluded.token, at = excluded.at, session = excluded.session

-- statement: unreserved
DELETE FROM limpet_reservation WHERE at <= :since OR at >= :until

-- statement: give
INSERT INTO limpet_permit (holder, n, server, session, what, cpu, memory, heavy, at)
SELECT j.id, j.n, ?, j.session, j.task, ?, ?, ?, ? FROM limpet_job j WHERE j.n = ?
ON CONFLICT (holder) DO UPDATE
SET n = excluded.n, server = excluded.server, session = excluded.session, what = excluded.what,
    cpu = excluded.cpu, memory = excluded.memory, heavy = excluded.heavy, at = excluded.at

-- statement: give_caller
INSERT INTO limpet_permit (holder, server, session, what, cpu, memory, heavy, at)
SELECT id, :server, id, name, :cpu, :memory, :heavy, :now FROM limpet_session WHERE id = :session

-- statement: has
SELECT 1 FROM limpet_permit WHERE holder = :holder

-- statement: any
SELECT 1 FROM limpet_permit LIMIT 1

-- statement: left
DELETE FROM limpet_permit
WHERE n IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM limpet_job j
    WHERE j.n = limpet_permit.n AND j.state = 'running' AND j.session = limpet_permit.session)

-- statement: ended
DELETE FROM limpet_permit
WHERE n IS NULL AND NOT EXISTS (
    SELECT 1 FROM limpet_session s WHERE s.id = limpet_permit.session AND s.state <> 'dead')

-- statement: permits
SELECT server, holder, session, what, cpu, memory, heavy, at FROM limpet_permit
WHERE :server IS NULL OR server = :server
ORDER BY at, rowid

-- statement: reservations
SELECT r.server, j.id, r.at, NULL FROM limpet_reservation r
JOIN limpet_job j ON j.n = r.n AND j.token = r.token AND j.state = 'ready'
WHERE r.at > :since AND r.at < :until
UNION ALL
SELECT r.server, s.id, r.at, s.name FROM limpet_reservation r
JOIN limpet_session s ON s.id = r.session AND s.state <> 'dead'
WHERE r.n = 0 AND r.at > :since AND r.at < :until
  AND NOT EXISTS (SELECT 1 FROM limpet_permit p WHERE p.holder = r.session)
ORDER BY 1
