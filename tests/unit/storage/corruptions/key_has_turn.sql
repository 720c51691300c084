-- a job with a key that runs without a turn of it
UPDATE limpet_job SET key = 'k' WHERE state = 'running';
