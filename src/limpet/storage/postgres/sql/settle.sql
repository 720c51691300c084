-- settle: what a settlement writes beside the job (shift and complete move the job).
-- purpose: add up the counts that jobs reported.
-- params:  counts: a JSON list of [job id, list of [name, number]].
-- returns: nothing.

-- statement: count
INSERT INTO limpet.tally (queue, move, source, target, jobs)
SELECT j.queue, 'count:' || (c.value ->> 0), NULL, NULL, sum((c.value ->> 1)::bigint)
FROM json_array_elements(%(counts)s::json) e
JOIN limpet.job j ON j.id = e.value ->> 0
CROSS JOIN json_array_elements(e.value -> 1) c
GROUP BY j.queue, c.value ->> 0
