-- unique: which job of a task holds a `unique`.
-- purpose: find the holder, and pass the `unique` on.
-- params:  by name; :pairs is a JSON list of [task, unique], :n a job's number.
-- returns: holders: for each pair the job that had it last; columns from `n` on as in after.unfinished.
--          other: another job that has the `unique` of this one.

-- statement: holders
SELECT j.task, j.unique_key, j.id, j.created_at, j.rules,
       j.n, j.queue, j.state, j.session, j.token, j.claimed_at
FROM json_each(:pairs) e
CROSS JOIN limpet_job j INDEXED BY limpet_job_sole
    ON j.task = e.value ->> 0 AND j.unique_key = e.value ->> 1 AND j.sole = 1

-- statement: other
SELECT j.n, j.state, j.created_at, j.rules
FROM limpet_job o
CROSS JOIN limpet_job j INDEXED BY limpet_job_sole
    ON j.task = o.task AND j.unique_key = o.unique_key AND j.sole = 1
WHERE o.n = :n AND j.n <> o.n

-- statement: let_go
UPDATE limpet_job SET sole = 0 WHERE n = :n

-- statement: take
UPDATE limpet_job SET sole = 1 WHERE n = :n AND unique_key IS NOT NULL
