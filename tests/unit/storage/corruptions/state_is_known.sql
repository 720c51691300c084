-- a state that the table does not have, counted as if it had
UPDATE limpet_job SET state = 'lost' WHERE n = (SELECT min(n) FROM limpet_job WHERE state = 'ready');
UPDATE limpet_gauge SET jobs = jobs - 1 WHERE state = 'ready';
INSERT INTO limpet_gauge (queue, state, jobs) VALUES ('default', 'lost', 1);
