-- queue_lengths: read before jobs are written into queues with a cap.
-- purpose: find which jobs exist, and how many wait in the queues.
-- params:  p_ids, p_queues: columns of ids and of queues.
-- returns: one row.
--          known: the jobs that exist, as JSON of ids and states.
--          waiting: how many jobs wait in each queue, with those of committed flows, as JSON of names and
--          numbers.

CREATE OR REPLACE FUNCTION limpet.v1_queue_lengths(
    p_ids text, p_queues text, OUT known json, OUT waiting json)
LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT json_object_agg(p.id, p.state) FROM limpet.placed p
            WHERE p.id = ANY (limpet.v1_column(p_ids))),
           (SELECT json_object_agg(q.name,
                (SELECT count(*) FROM limpet.ready r WHERE r.queue = q.name)
                + (SELECT count(*) FROM limpet.parked b
                   WHERE b.queue = q.name AND b.state IN ('scheduled', 'blocked'))
                + (SELECT count(*) FROM limpet.flow f JOIN limpet.staged s ON s.flow = f.id
                   WHERE f.committed_at IS NOT NULL AND NOT f.written AND s.queue = q.name))
            FROM unnest(limpet.v1_column(p_queues)) AS q (name))
$$;
