-- enqueue: the step before jobs are written (the function of the same name writes them).
-- purpose: keep the caps of queues.
-- params:  queue: its name, after the name of the schema.
-- returns: nothing.

-- statement: alone
-- Two transactions that enqueue into a queue with a cap go one after the other, or both would take its
-- last place.
SELECT pg_advisory_xact_lock(hashtextextended('limpet queue ' || %(queue)s, 0))
