-- 0003_lean: an index less to write when a job starts and when it ends.

-- What runs is few and is found through limpet_job_held.
DROP INDEX limpet_job_by_state;
CREATE INDEX limpet_job_by_state ON limpet_job (state, n) WHERE state <> 'running';
