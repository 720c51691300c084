-- a job without an expiry that lapses
UPDATE limpet_job SET lapses_at = 1 WHERE state = 'scheduled';
