-- a permit of a job that does not run
INSERT INTO limpet.permit (holder, server, session, what, cpu, memory, heavy, at)
SELECT id, 'web-1', 'nobody', task, 1000, 0, false, 0 FROM limpet.parked WHERE state = 'blocked';
