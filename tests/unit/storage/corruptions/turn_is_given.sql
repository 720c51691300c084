-- a job that waits for a key which nobody has
DELETE FROM limpet_blocked;
UPDATE limpet_job SET key = 'k', turn = 2 WHERE state = 'blocked';
