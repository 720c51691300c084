-- control: what a person requests of queues and jobs (cancel, retry, repair and requeue are functions).
-- purpose: pause: a paused queue is not claimed from.
--          options, no_options: read the options of a job, and replace unreadable ones.
-- params:  by name.
-- returns: options: those of a job.

-- statement: pause
INSERT INTO limpet.queue (name, paused) VALUES (%(queue)s, %(paused)s)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused

-- statement: options
SELECT options FROM limpet.job WHERE id = %(id)s

-- statement: no_options
UPDATE limpet.job SET options = '{}' WHERE id = %(id)s
