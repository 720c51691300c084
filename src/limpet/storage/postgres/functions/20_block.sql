-- block: take jobs whose task no session knows out of the line; unblock: put them in again.
-- purpose: block: ready to blocked, so that no claim reads these jobs again and again, and their turns go to
--          other jobs.
--          unblock: blocked to ready, or to waiting for the key, when a session comes that knows the task.
--          At most 1,000 jobs at a time.
-- params:  p_queue, p_task: block: which jobs.
--          p_tasks: unblock: the digest of the tasks that a session knows.
--          p_now: the wall time.
-- returns: block: keys: keys, locked by this, of which the caller must give turns back (see turns).
--                 back: how many turns of each.
--          unblock: how many jobs moved.

CREATE OR REPLACE FUNCTION limpet.v1_block(
    p_queue text, p_task text, p_now bigint, OUT keys text[], OUT back integer[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
    v_shaped text[];
    v_ids text[];
    v_free text[];
BEGIN
    SELECT array_agg(r.id), array_agg(r.id) FILTER (WHERE r.shaped) INTO v_ids, v_shaped
    FROM (SELECT o.id, o.shaped FROM limpet.ready o
          WHERE o.queue = p_queue AND o.task = p_task LIMIT 1000 FOR UPDATE SKIP LOCKED) r;
    IF v_shaped IS NOT NULL THEN
        -- Jobs whose key another transaction has locked are left to the next claim.
        v_free := limpet.v1_free_keys(ARRAY(
            SELECT DISTINCT j.key FROM limpet.job j
            WHERE j.id = ANY (v_shaped) AND j.key IS NOT NULL), false);
        v_ids := ARRAY(SELECT unnest(v_ids) EXCEPT
                       SELECT j.id FROM limpet.job j
                       WHERE j.id = ANY (v_shaped) AND j.key IS NOT NULL
                         AND j.key <> ALL (v_free));
    END IF;
    WITH gone AS (
        DELETE FROM limpet.ready WHERE id = ANY (v_ids) RETURNING *
    ), parked AS (
        INSERT INTO limpet.parked
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               'blocked', 'task', p_task, p_now, shaped
        FROM gone
    ), events AS (
        INSERT INTO limpet.event (id, at, event, cause)
        SELECT id, p_now, 'blocked', json_build_object(
            'kind', 'Needs', 'what', 'task', 'name', p_task, 'text', 'needs task ' || p_task)
        FROM gone
    )
    SELECT count(*), array_agg(id) FILTER (WHERE shaped) INTO v_moved, v_shaped FROM gone;
    IF v_moved > 0 THEN
        INSERT INTO limpet.tally VALUES (p_queue, 'block', 'ready', 'blocked', v_moved);
    END IF;
    IF v_shaped IS NOT NULL THEN
        SELECT array_agg(k.key), array_agg(k.back) INTO keys, back
        FROM (SELECT j.key, count(*)::integer AS back FROM limpet.job j
              WHERE j.id = ANY (v_shaped) AND j.key IS NOT NULL GROUP BY j.key) k;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_unblock(p_tasks text, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
    v_keyed integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM limpet.parked WHERE state = 'blocked' AND reason = 'task') THEN
        RETURN 0;
    END IF;
    WITH taken AS (
        DELETE FROM limpet.parked
        WHERE ctid = ANY (ARRAY(
            SELECT p.ctid FROM limpet.parked p
            WHERE p.state = 'blocked' AND p.reason = 'task'
              AND p.what IN (SELECT t.task FROM limpet.taskset t WHERE t.digest = p_tasks)
            LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), gone AS (
        SELECT t.*, k.key, limpet.v1_rules(k.rules) AS rules FROM taken t LEFT JOIN LATERAL (
            SELECT j.key, j.rules FROM limpet.job j WHERE t.shaped AND j.id = t.id OFFSET 0) k ON true
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               shaped
        FROM gone WHERE key IS NULL
    ), waiting AS (
        INSERT INTO limpet.parked
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               'blocked', 'key', limpet.v1_line_place(key, sort_key, n), p_now, shaped
        FROM gone WHERE key IS NOT NULL
    ), notes AS (
        -- As notes, because a renewal must not wait for a key.
        INSERT INTO limpet.note (kind, what, most, rated)
        SELECT 'key', key, max(coalesce((rules ->> 'key_limit')::integer, 1)),
               bool_or(rules -> 'key_rate' IS NOT NULL)
        FROM gone WHERE key IS NOT NULL GROUP BY key
    ), events AS (
        INSERT INTO limpet.event (id, at, event) SELECT id, p_now, 'unblocked' FROM gone
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'unblock', 'blocked', 'ready', count(*) FROM gone WHERE key IS NULL
        GROUP BY queue
    )
    SELECT count(*), count(*) FILTER (WHERE key IS NOT NULL) INTO v_moved, v_keyed FROM gone;
    IF v_keyed > 0 THEN
        PERFORM limpet.v1_notes(p_now, true);
    END IF;
    IF v_moved > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    RETURN v_moved;
END $$;
