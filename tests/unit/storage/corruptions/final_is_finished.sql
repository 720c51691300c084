-- a job that succeeded at no time
UPDATE limpet_job SET finished_at = NULL WHERE state = 'succeeded';
