-- due: let time take effect.
-- purpose: promote: scheduled to ready when due, at most 1,000; the tally is folded on the way.
--          lapse: waiting to cancelled or failed when too late, as p_moves says.
--          prune: a final state to (nothing), with everything told about the job.
-- params:  lapse: a JSON list of moves; prune: the state, before when it was finished and enqueued,
--          the most to remove; the wall time.
-- returns: how many.

CREATE OR REPLACE FUNCTION limpet.v1_promote(p_now bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
BEGIN
    PERFORM limpet.v1_pass(false);
    WITH gone AS (
        DELETE FROM limpet.parked
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM limpet.parked
            WHERE state = 'scheduled' AND ready_at <= p_now
              AND (LEAST(expires_at, deadline_at) > p_now
                   OR LEAST(expires_at, deadline_at) IS NULL)
            ORDER BY ready_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at
        FROM gone
    ), told AS (
        INSERT INTO limpet.tally
        SELECT queue, 'promote', 'scheduled', 'ready', count(*) FROM gone GROUP BY queue
    )
    SELECT count(*) INTO v_moved FROM gone;
    IF v_moved > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    PERFORM limpet.v1_fold(20000);
    RETURN v_moved;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_lapse(p_moves jsonb, p_now bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
BEGIN
    PERFORM limpet.v1_pass(false);
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_moves)
        AS m (id text, target text, event text, cause text)
    ), gone AS (
        DELETE FROM limpet.ready r WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m)) RETURNING r.*
    ), gone_parked AS (
        DELETE FROM limpet.parked r WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m))
        RETURNING r.id, r.n, r.tail, r.queue, r.task, r.priority, r.sort_key, r.ready_at, r.round,
                  r.token, r.failures, r.orphans, r.strikes, r.suspect, r.last_run, r.expires_at,
                  r.deadline_at, r.session, r.claimed_at, r.state
    ), late AS (
        SELECT *, 'ready' AS state FROM gone UNION ALL SELECT * FROM gone_parked
    ), done AS (
        INSERT INTO limpet.done
        SELECT l.id, l.n, l.tail, l.queue, l.task, l.priority, l.sort_key, l.ready_at, l.round,
               l.token, l.failures, l.orphans, l.strikes, l.suspect, l.last_run, l.expires_at,
               l.deadline_at, l.session, l.claimed_at, m.target, p_now
        FROM late l JOIN given m ON m.id = l.id
    ), told AS (
        INSERT INTO limpet.event (id, at, event, cause)
        SELECT m.id, p_now, m.event, m.cause FROM late l JOIN given m ON m.id = l.id ORDER BY l.n
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error)
        SELECT m.id, m.cause FROM late l JOIN given m ON m.id = l.id
        ON CONFLICT (id) DO UPDATE SET error = excluded.error
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT l.queue, 'expire', l.state, m.target, count(*)
        FROM late l JOIN given m ON m.id = l.id GROUP BY l.queue, l.state, m.target
    )
    SELECT count(*) INTO v_moved FROM late;
    IF v_moved > 0 THEN
        PERFORM pg_notify('limpet.done', '');
    END IF;
    RETURN v_moved;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_prune(
    p_state text, p_finished_before bigint, p_created_before bigint, p_limit integer)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids text[];
BEGIN
    PERFORM limpet.v1_pass(false);
    v_ids := ARRAY(
        SELECT d.id FROM limpet.done d JOIN limpet.job j ON j.id = d.id
        WHERE d.state = p_state AND d.finished_at < p_finished_before
          AND j.created_at < p_created_before
        ORDER BY d.finished_at LIMIT p_limit FOR UPDATE OF d SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN
        RETURN 0;
    END IF;
    INSERT INTO limpet.tally
    SELECT queue, 'prune', p_state, NULL, count(*) FROM limpet.done WHERE id = ANY (v_ids)
    GROUP BY queue;
    DELETE FROM limpet.done WHERE id = ANY (v_ids);
    DELETE FROM limpet.trouble WHERE id = ANY (v_ids);
    DELETE FROM limpet.event WHERE id = ANY (v_ids);
    DELETE FROM limpet.progress WHERE id = ANY (v_ids);
    DELETE FROM limpet.log WHERE id = ANY (v_ids);
    DELETE FROM limpet.job WHERE id = ANY (v_ids);
    RETURN cardinality(v_ids);
END $$;
