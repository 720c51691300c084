-- a permit of a job that does not run
INSERT INTO limpet_permit (holder, n, server, session, what, cpu, memory, heavy, at)
SELECT id, n, 'web-1', 'nobody', task, 1000, 0, 0, 0 FROM limpet_job WHERE state = 'blocked';
