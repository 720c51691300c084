INSERT INTO limpet.ready SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token,
    failures, orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at
FROM limpet.done LIMIT 1;
INSERT INTO limpet.tally SELECT queue, 'x', NULL, 'ready', 1 FROM limpet.done LIMIT 1;
