-- enqueue: what is done before jobs are written (by the function of the same name).
-- purpose: the caps of queues.
-- params:  the queue, with the schema that it is in.
-- returns: nothing.

-- statement: alone
-- Two that enqueue into a queue with a cap take turns, or both would take its last place.
SELECT pg_advisory_xact_lock(hashtextextended('limpet queue ' || %(queue)s, 0))
