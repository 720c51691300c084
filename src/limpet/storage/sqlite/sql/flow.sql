-- flow: many jobs that come into being at one moment.
-- purpose: keep them aside, commit them in one small write, write them out a part at a time.
-- params:  by name; :ids and :parents are JSON lists of ids.
-- returns: committed: a row if the flow is committed.
--          places: how many of the first :chunks parts are there.
--          by_queue: how many jobs these parts have for each queue.
--          next: the flow to be written out next, and its next part.
--          there: id, parent, state, round and rules of jobs.
--          over: those children of the parents that have ever been finished.
--          gone: the numbers of those parents that failed or were cancelled.
--          children: rows in the order that rows.py reads.

-- statement: committed
SELECT 1 FROM limpet_flow WHERE flow = :flow

-- statement: stage
INSERT INTO limpet_staged (flow, place, jobs, queues, staged_at)
VALUES (:flow, :place, :jobs, :queues, :now)
ON CONFLICT (flow, place) DO UPDATE
SET jobs = excluded.jobs, queues = excluded.queues, staged_at = excluded.staged_at

-- statement: places
SELECT count(*) FROM limpet_staged WHERE flow = :flow AND place >= 0 AND place < :chunks

-- statement: by_queue
SELECT q.key, sum(q.value) FROM limpet_staged s CROSS JOIN json_each(
    CASE WHEN json_valid(s.queues) THEN s.queues ELSE '{}' END) q
WHERE s.flow = :flow AND s.place >= 0 AND s.place < :chunks
GROUP BY q.key

-- statement: commit
INSERT INTO limpet_flow (flow, chunks, committed_at, whole) VALUES (:flow, :chunks, :now, :chunks = 0)

-- statement: drop
DELETE FROM limpet_staged WHERE flow = :flow

-- statement: next
SELECT f.flow, f.chunks, f.written, s.jobs
FROM limpet_flow f INDEXED BY limpet_flow_open
LEFT JOIN limpet_staged s ON s.flow = f.flow AND s.place = f.written
WHERE f.whole = 0
ORDER BY f.f
LIMIT 1

-- statement: written
UPDATE limpet_flow SET written = :place + 1, whole = (:place + 1 >= chunks) WHERE flow = :flow

-- statement: there
SELECT j.id, j.parent, j.state, j.round, j.rules
FROM limpet_job j
WHERE j.id IN (SELECT value FROM json_each(:ids))

-- statement: over
SELECT j.id, j.state, j.parent, j.rules
FROM json_each(:parents) e
CROSS JOIN limpet_job j INDEXED BY limpet_job_child ON j.parent = e.value
WHERE j.parent IS NOT NULL AND (j.finished_at IS NOT NULL OR j.round > 1)

-- statement: gone
SELECT n FROM limpet_job
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('failed', 'cancelled')

-- statement: children
SELECT v.* FROM (
    SELECT n FROM limpet_job INDEXED BY limpet_job_child
    WHERE parent = :parent AND parent IS NOT NULL AND n > :after
    ORDER BY n
    LIMIT :limit) c
CROSS JOIN limpet_job_view v ON v.n = c.n
ORDER BY c.n

-- statement: old
DELETE FROM limpet_staged WHERE rowid IN (
    SELECT rowid FROM limpet_staged INDEXED BY limpet_staged_old
    WHERE staged_at < :before AND flow NOT IN (SELECT flow FROM limpet_flow WHERE whole = 0)
    LIMIT :limit)

-- statement: forget
DELETE FROM limpet_flow WHERE f IN (
    SELECT f FROM limpet_flow INDEXED BY limpet_flow_whole
    WHERE whole = 1 AND committed_at < :before
    LIMIT :limit)
