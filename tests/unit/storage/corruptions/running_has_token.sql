-- a running job that was never claimed
UPDATE limpet_job SET claimed_at = NULL WHERE state = 'running';
