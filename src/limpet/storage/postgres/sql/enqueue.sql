-- enqueue: what is asked before jobs are written (by the function of the same name).
-- purpose: the caps of queues.
-- params:  alone: the queue; known: ids, a column; waiting: the queue.
-- returns: known: one row for each id that is there; waiting: the length of the queue.

-- statement: alone
-- Two that enqueue into a queue with a cap take turns, or both would take its last place.
SELECT pg_advisory_xact_lock(hashtextextended('limpet.queue ' || %(queue)s, 0))

-- statement: known
SELECT id, state FROM limpet.placed WHERE id = ANY (limpet.v1_column(%(ids)s))

-- statement: waiting
SELECT (SELECT count(*) FROM limpet.ready WHERE queue = %(queue)s)
     + (SELECT count(*) FROM limpet.parked
        WHERE queue = %(queue)s AND state IN ('scheduled', 'blocked'))
