-- a job that pushed in
UPDATE limpet_job SET sort_key = sort_key - 1 WHERE state = 'scheduled';
