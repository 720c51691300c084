-- breakers: they hold back the work of some tasks.
-- purpose: keep their rules and their state.
-- params:  by name.
-- returns: find: the body of a breaker.
--          all, not_closed: names and bodies.
--          attempt: id and token of the job that is the probe.

-- statement: find
SELECT body FROM limpet_breaker WHERE name = :name

-- statement: all
SELECT name, body FROM limpet_breaker ORDER BY name

-- statement: not_closed
SELECT name, body FROM limpet_breaker INDEXED BY limpet_breaker_open
WHERE state <> 'closed' ORDER BY name

-- statement: attempt
SELECT id, token FROM limpet_job WHERE n = :n

-- statement: write
INSERT INTO limpet_breaker (name, state, body) VALUES (:name, :state, :body)
ON CONFLICT (name) DO UPDATE SET state = excluded.state, body = excluded.body
