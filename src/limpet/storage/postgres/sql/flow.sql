-- flow: many jobs that are enqueued at one moment.
-- purpose: keep the jobs of a flow until its commit, a part at a time; find what promote writes out,
--          parents first.
-- params:  by name.
--          rows: a JSON list in the order of the columns.
-- returns: lock: the parts that are staged, and when the flow was committed.
--          staged_by_queue: each queue, and how many staged jobs are for it.
--          committed: a flow that is to be written out, locked.
--          next: its first jobs; a job whose parent is still staged waits for the next call.
--          any: its first jobs, whatever their parents.
--          old: flows that were not committed in time, and flows that are written, locked.
--          children: rows of job_view.

-- statement: begin
INSERT INTO limpet.flow (id, places, staged_at) VALUES (%(flow)s, '{}', limpet.v1_time(%(wall)s))
ON CONFLICT (id) DO NOTHING

-- statement: lock
SELECT places, committed_at FROM limpet.flow WHERE id = %(flow)s FOR UPDATE

-- statement: clear
DELETE FROM limpet.staged WHERE flow = %(flow)s AND place = %(place)s

-- statement: stage
INSERT INTO limpet.staged (flow, place, item, id, parent, job, queue)
SELECT %(flow)s, %(place)s, e.place, e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3
FROM json_array_elements(%(rows)s::json) WITH ORDINALITY AS e (value, place)

-- statement: staged
UPDATE limpet.flow
SET places = array_append(array_remove(places, %(place)s), %(place)s), staged_at = limpet.v1_time(%(wall)s)
WHERE id = %(flow)s

-- statement: staged_by_queue
SELECT queue, count(*) FROM limpet.staged WHERE flow = %(flow)s AND place < %(chunks)s GROUP BY queue

-- statement: commit
UPDATE limpet.flow
SET committed_at = limpet.v1_time(%(wall)s),
    written = NOT EXISTS (SELECT FROM limpet.staged s WHERE s.flow = %(flow)s)
WHERE id = %(flow)s

-- statement: drop
-- The parts that the commit does not name; all parts where chunks is 0.
DELETE FROM limpet.staged WHERE flow = %(flow)s AND place >= %(chunks)s

-- statement: forget
DELETE FROM limpet.flow WHERE id = %(flow)s

-- statement: committed
SELECT id FROM limpet.flow WHERE committed_at IS NOT NULL AND NOT written
ORDER BY committed_at, id LIMIT 1 FOR UPDATE SKIP LOCKED

-- statement: next
WITH RECURSIVE line AS (
    SELECT * FROM (
        SELECT s.id, s.job FROM limpet.staged s
        WHERE s.flow = %(flow)s AND NOT EXISTS (
            SELECT FROM limpet.staged o WHERE o.flow = s.flow AND o.id = s.parent)
        ORDER BY s.place, s.item LIMIT %(limit)s) top
    UNION ALL
    SELECT below.id, below.job FROM line l CROSS JOIN LATERAL (
        SELECT s.id, s.job FROM limpet.staged s
        WHERE s.flow = %(flow)s AND s.parent = l.id AND s.id <> l.id
        ORDER BY s.place, s.item LIMIT %(limit)s) below
)
SELECT id, job FROM line LIMIT %(limit)s

-- statement: any
-- Jobs whose parents form a circle have no first job.
SELECT id, job FROM limpet.staged WHERE flow = %(flow)s ORDER BY place, item LIMIT %(limit)s

-- statement: written
DELETE FROM limpet.staged WHERE flow = %(flow)s AND id = ANY (limpet.v1_column(%(ids)s))

-- statement: finish
UPDATE limpet.flow SET written = true
WHERE id = %(flow)s AND NOT EXISTS (SELECT FROM limpet.staged s WHERE s.flow = %(flow)s)

-- statement: old
SELECT id FROM limpet.flow
WHERE (committed_at IS NULL AND staged_at < %(before)s) OR (written AND committed_at < %(before)s)
ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- statement: children
SELECT v.* FROM (
    SELECT c.id, c.n FROM limpet.child c
    WHERE c.parent = %(parent)s AND c.n > %(after)s ORDER BY c.n LIMIT %(limit)s) top
CROSS JOIN LATERAL (SELECT * FROM limpet.job_view w WHERE w.id = top.id OFFSET 0) v
ORDER BY top.n
