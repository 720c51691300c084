-- block and unblock: jobs whose task nobody knows step out of the line, and in again.
-- purpose: ready to blocked, so that nobody spins on them; blocked to ready when a session comes
--          that knows the task. At most 1,000 at a time.
-- params:  block: queue and task; unblock: the digest of the tasks that are known; the wall time.
-- returns: how many moved.

CREATE OR REPLACE FUNCTION limpet.v1_block(p_queue text, p_task text, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
BEGIN
    WITH gone AS (
        DELETE FROM limpet.ready
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM limpet.ready
            WHERE queue = p_queue AND task = p_task LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), parked AS (
        INSERT INTO limpet.parked SELECT gone.*, 'blocked', 'task', p_task, p_now FROM gone
    ), told AS (
        INSERT INTO limpet.event (id, at, event, cause)
        SELECT id, p_now, 'blocked', json_build_object(
            'kind', 'Needs', 'what', 'task', 'name', p_task, 'text', 'needs task ' || p_task)
        FROM gone
    )
    SELECT count(*) INTO v_moved FROM gone;
    IF v_moved > 0 THEN
        INSERT INTO limpet.tally VALUES (p_queue, 'block', 'ready', 'blocked', v_moved);
    END IF;
    RETURN v_moved;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_unblock(p_tasks text, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM limpet.parked WHERE state = 'blocked' AND reason = 'task') THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM limpet.parked
        WHERE ctid = ANY (ARRAY(
            SELECT p.ctid FROM limpet.parked p
            WHERE p.state = 'blocked' AND p.reason = 'task'
              AND p.what IN (SELECT t.task FROM limpet.taskset t WHERE t.digest = p_tasks)
            LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at
        FROM gone
    ), told AS (
        INSERT INTO limpet.event (id, at, event) SELECT id, p_now, 'unblocked' FROM gone
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'unblock', 'blocked', 'ready', count(*) FROM gone GROUP BY queue
    )
    SELECT count(*) INTO v_moved FROM gone;
    IF v_moved > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    RETURN v_moved;
END $$;
