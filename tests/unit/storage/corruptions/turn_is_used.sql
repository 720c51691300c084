-- a job that is finished and has a turn of its key
UPDATE limpet_job SET key = 'k', turn = 1 WHERE state = 'succeeded';
