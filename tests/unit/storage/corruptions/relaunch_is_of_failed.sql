-- another chance for a job that succeeded
UPDATE limpet_job SET relaunch_at = 1 WHERE state = 'succeeded';
