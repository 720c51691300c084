-- fence: which of the given leases still hold.
-- purpose: every write after a claim is checked here, in the same transaction as the write.
-- params:  leases: a JSON list of [job id, token, the move that the holder tried].
--          session: the holder.
-- returns: holding: for each lease that holds, its place in the list, the job's row and options, and why its
--          cancellation was requested; the rows stay locked.
--          keep: a row if the lease holds.
--          verdict: for each lease its place, the job (NULL when it is gone), and whether the settlement was
--          accepted before.
--          complain: nothing.

-- statement: holding
SELECT e.place - 1, r.n, r.queue, r.sort_key, r.ready_at, r.failures, r.orphans, r.strikes,
       r.last_run, r.begun, r.claimed_at, r.deadline_at, r.cancel_requested_at, r.priority,
       r.suspect, r.expires_at, j.options,
       (SELECT v.cause FROM limpet.event v
        WHERE r.cancel_requested_at IS NOT NULL AND v.id = r.id AND v.event = 'cancel_requested'
          AND v.cause IS NOT NULL
        ORDER BY v.e DESC LIMIT 1)
FROM jsonb_array_elements(%(leases)s::jsonb) WITH ORDINALITY AS e (value, place)
JOIN limpet.running r ON r.id = e.value ->> 0
JOIN limpet.job j ON j.id = r.id
WHERE r.session = %(session)s AND r.token = (e.value ->> 1)::bigint
ORDER BY r.id, e.place
FOR UPDATE OF r

-- statement: keep
-- Locks one lease until the transaction ends; renewals do not wait for this lock.
SELECT 1 FROM limpet.running
WHERE id = %(job)s AND session = %(session)s AND token = %(token)s
FOR KEY SHARE

-- statement: verdict
SELECT e.place - 1, j.id,
       coalesce(d.state = 'succeeded' AND d.session = %(session)s
                AND d.token = (e.value ->> 1)::bigint AND e.value ->> 2 = 'complete', false)
       OR EXISTS (
           SELECT 1 FROM limpet.event v
           WHERE v.id = j.id AND v.session = %(session)s AND v.token = (e.value ->> 1)::bigint
             AND v.settled = e.value ->> 2)
FROM jsonb_array_elements(%(leases)s::jsonb) WITH ORDINALITY AS e (value, place)
LEFT JOIN limpet.job j ON j.id = e.value ->> 0
LEFT JOIN limpet.done d ON d.id = j.id
ORDER BY e.place

-- statement: complain
-- Once for each lost lease, however often its holder tries.
INSERT INTO limpet.event (id, at, event, session, token, cause)
SELECT %(job)s, limpet.v1_time(%(wall)s), 'lease_lost', %(session)s, %(token)s, %(cause)s
WHERE NOT EXISTS (
    SELECT 1 FROM limpet.event
    WHERE id = %(job)s AND session = %(session)s AND token = %(token)s AND event = 'lease_lost')
