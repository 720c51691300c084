-- a job that waits for nothing
DELETE FROM limpet_blocked;
