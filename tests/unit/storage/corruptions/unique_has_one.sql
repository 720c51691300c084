-- a job that holds what it does not name
UPDATE limpet_job SET sole = 1 WHERE state = 'scheduled' AND priority = 3;
