-- an event of a claim that the job has not had yet
INSERT INTO limpet_event (n, at, event, token)
SELECT n, created_at, 'released', token + 1 FROM limpet_job WHERE state = 'running';
