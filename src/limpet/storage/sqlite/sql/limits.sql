-- limits: the settings of queues.
-- purpose: keep them, and how much of their limits is used up.
-- params:  by name.
-- returns: rules: the declared rules, and those set at run time, as JSON.
--          most_served: the pace of the queue that has had the most.

-- statement: rules
SELECT declared, adjusted FROM limpet_queue WHERE name = :queue

-- statement: write_rules
INSERT INTO limpet_queue (name, declared, adjusted, concurrency, weighted)
VALUES (:queue, :declared, :adjusted, :concurrency, :weighted)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, adjusted = excluded.adjusted,
    concurrency = excluded.concurrency, weighted = excluded.weighted

-- statement: hold
INSERT INTO limpet_queue (name, held_until) VALUES (:queue, :until)
ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until

-- statement: hold_longer
INSERT INTO limpet_queue (name, held_until) VALUES (:queue, :until)
ON CONFLICT (name) DO UPDATE SET held_until = max(held_until, excluded.held_until)

-- statement: drain
INSERT INTO limpet_queue (name, draining) VALUES (:queue, :draining)
ON CONFLICT (name) DO UPDATE SET draining = excluded.draining

-- statement: given
INSERT INTO limpet_queue (name, given_until) VALUES (:queue, :given_until)
ON CONFLICT (name) DO UPDATE SET given_until = excluded.given_until

-- statement: most_served
SELECT coalesce(max(pace), 0) FROM limpet_queue

-- statement: served
INSERT INTO limpet_queue (name, pace) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET pace = excluded.pace
