-- control: pause, on a person's word (cancel and retry are functions).
-- purpose: a paused queue is not claimed from.
-- params:  by name.
-- returns: nothing.

-- statement: pause
INSERT INTO limpet.queue (name, paused) VALUES (%(queue)s, %(paused)s)
ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
