-- a job without arguments
DELETE FROM limpet_payload WHERE n = (SELECT n FROM limpet_job WHERE state = 'running');
