-- flow: many jobs that come into being at one moment.
-- purpose: stage: keep jobs aside, a part at a time; commit; what promote is to write out, parents first.
-- params:  by name; rows is a JSON list in the order of the columns.
-- returns: lock: the parts that are there, and when it was committed; asked: how many jobs of each queue;
--          committed: a flow that is to be written
--          out, locked; next: its first jobs, those before whose parent they come left for later.

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

-- statement: asked
SELECT queue, count(*) FROM limpet.staged WHERE flow = %(flow)s AND place < %(chunks)s GROUP BY queue

-- statement: commit
UPDATE limpet.flow
SET committed_at = limpet.v1_time(%(wall)s),
    written = NOT EXISTS (SELECT FROM limpet.staged s WHERE s.flow = %(flow)s)
WHERE id = %(flow)s

-- statement: drop
-- Parts that a commit does not name, or all of them.
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
-- What names itself in a circle has no first.
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
