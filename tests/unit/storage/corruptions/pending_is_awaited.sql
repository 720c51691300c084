-- a job that is finished and waits for a child
UPDATE limpet_job SET pending = 1 WHERE state = 'succeeded';
