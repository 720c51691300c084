-- settle: what a settlement leaves beside the job (which shift and complete move).
-- purpose: count what jobs counted.
-- params:  counts, a JSON list of [job id, list of [name, number]].
-- returns: nothing.

-- statement: count
INSERT INTO limpet.tally (queue, move, source, target, jobs)
SELECT j.queue, 'count:' || (c.value ->> 0), NULL, NULL, sum((c.value ->> 1)::bigint)
FROM json_array_elements(%(counts)s::json) e
JOIN limpet.job j ON j.id = e.value ->> 0
CROSS JOIN json_array_elements(e.value -> 1) c
GROUP BY j.queue, c.value ->> 0
