-- a parent that is said to be gone and runs
INSERT INTO limpet_gone (n) SELECT n FROM limpet_job WHERE state = 'running';
