-- exchange: the hot path, settle and claim in one step.
-- purpose: running to succeeded for what is done; to where p_moves says for the rest; ready to running
--          as far as there is room. The same seq gets the same answer.
-- params:  the session and its seq; columns of the jobs that are done: ids, tokens, results (NULL
--          where the task returned None) and secret paths; what was decided about others
--          (see shift) and what was refused (fence.sql), as JSON; the pools as JSON; columns of
--          leases that have begun; wall and lease time, or NULL.
-- returns: a first row with the verdict (done, repeat, late, ahead, unknown), the standing, the last
--          seq and what was refused; then a row for each job that was claimed, in order.
-- errors:  LP001 with nothing done, if one of the jobs that are done is not held.

CREATE OR REPLACE FUNCTION limpet.v1_exchange(
    p_session text, p_seq bigint, p_done text, p_tokens text, p_results text, p_secrets text,
    p_moves jsonb, p_rejected text, p_want jsonb, p_begun text, p_begun_tokens text,
    p_wall bigint, p_lease bigint)
RETURNS TABLE (
    job text, token bigint, task text, queue text, round integer, failures integer,
    orphans integer, strikes integer, suspect boolean, last_run boolean, payload_version integer,
    args text, options text, secrets text, deadline_at bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_seq bigint;
    v_rejected text;
    v_standing text;
    v_count bigint := 0;
    v_marks bigint := 0;
    v_failed text[];
    v_jobs text[] := '{}';
    v_taken bigint := 0;
BEGIN
    SELECT h.seq, h.rejected INTO v_seq, v_rejected
    FROM limpet.hold h WHERE h.session = p_session FOR UPDATE;
    v_standing := limpet.v1_standing(p_session, p_lease);
    IF v_seq IS NULL OR v_standing IS NULL THEN
        RETURN QUERY SELECT 'unknown', 0::bigint, '', '[]', 0, 0, 0, 0, false, false, 0, '', '', '',
                            0::bigint;
        RETURN;
    END IF;
    IF p_seq <> v_seq + 1 THEN
        RETURN QUERY SELECT CASE WHEN p_seq = v_seq AND p_seq > 0 THEN 'repeat'
                                 WHEN p_seq < greatest(v_seq, 1) THEN 'late' ELSE 'ahead' END,
                            v_seq, v_standing, v_rejected, 0, 0, 0, 0, false, false, 0, '', '', '',
                            0::bigint;
        IF p_seq = v_seq AND p_seq > 0 AND v_standing <> 'dead' THEN
            RETURN QUERY
                SELECT r.id, r.token, r.task, r.queue, r.round, r.failures, r.orphans, r.strikes,
                       r.suspect, r.last_run, j.payload_version, j.args, j.options, j.secrets,
                       r.deadline_at
                FROM limpet.running r JOIN limpet.job j ON j.id = r.id
                WHERE r.session = p_session AND r.seq = p_seq
                ORDER BY r.place;
        END IF;
        RETURN;
    END IF;

    IF p_begun IS NOT NULL AND v_standing <> 'dead' THEN
        PERFORM limpet.v1_begin(p_session, p_begun, p_begun_tokens);
    END IF;
    IF p_done IS NOT NULL AND v_standing <> 'dead' THEN
        WITH gone AS (
            DELETE FROM limpet.running r
            USING unnest(limpet.v1_column(p_done), limpet.v1_column(p_tokens),
                         limpet.v1_column(p_results), limpet.v1_column(p_secrets))
                  AS g (id, token, result, secrets)
            WHERE r.id = g.id AND r.session = p_session AND r.token = g.token::bigint
            RETURNING r.id, r.n, r.tail, r.queue, r.task, r.priority, r.sort_key, r.ready_at,
                      r.round, r.token, r.failures, r.orphans, r.strikes, r.suspect, r.last_run,
                      r.expires_at, r.deadline_at, r.session, r.claimed_at, r.cancel_requested_at,
                      r.mark, g.result, g.secrets
        ), kept AS (
            INSERT INTO limpet.done
            SELECT g.id, g.n, g.tail, g.queue, g.task, g.priority, g.sort_key, g.ready_at, g.round,
                   g.token, g.failures, g.orphans, g.strikes, g.suspect, g.last_run, g.expires_at,
                   g.deadline_at, g.session, g.claimed_at, 'succeeded', v_now,
                   g.cancel_requested_at, g.result, g.secrets
            FROM gone g
        ), told AS (
            INSERT INTO limpet.tally
            SELECT g.queue, 'complete', 'running', 'succeeded', count(*) FROM gone g GROUP BY g.queue
        )
        SELECT count(*), sum(g.mark), array_agg(g.id) FILTER (WHERE g.failures + g.orphans > 0)
        INTO v_count, v_marks, v_failed FROM gone g;
        IF v_failed IS NOT NULL THEN
            -- What failed before left its error behind.
            DELETE FROM limpet.trouble t WHERE t.id = ANY (v_failed);
        END IF;
        PERFORM pg_notify('limpet.done', '');
    END IF;
    IF p_done IS NOT NULL AND v_count <> cardinality(limpet.v1_column(p_done)) THEN
        RAISE EXCEPTION 'a job that is done is not held' USING ERRCODE = 'LP001';
    END IF;
    IF p_moves IS NOT NULL THEN
        PERFORM limpet.v1_shift(p_session, p_moves, v_now);
    END IF;
    IF p_want IS NOT NULL AND v_standing = 'live' THEN
        SELECT c.jobs, c.marks INTO v_jobs, v_taken
        FROM limpet.v1_claim(p_session, p_seq, p_want, v_now) c;
    END IF;
    UPDATE limpet.hold h
    SET seq = p_seq, rejected = p_rejected,
        held_count = h.held_count - v_count + cardinality(v_jobs),
        held_total = (h.held_total - coalesce(v_marks, 0) + v_taken) & 281474976710655
    WHERE h.session = p_session;

    RETURN QUERY SELECT 'done', p_seq, v_standing, p_rejected, 0, 0, 0, 0, false, false, 0, '', '',
                        '', 0::bigint;
    IF cardinality(v_jobs) > 0 THEN
        RETURN QUERY
            SELECT r.id, r.token, r.task, r.queue, r.round, r.failures, r.orphans, r.strikes,
                   r.suspect, r.last_run, j.payload_version, j.args, j.options, j.secrets,
                   r.deadline_at
            FROM unnest(v_jobs) WITH ORDINALITY AS t (id, place)
            JOIN limpet.running r ON r.id = t.id
            JOIN limpet.job j ON j.id = t.id
            ORDER BY t.place;
    END IF;
END $$;

-- begin: which held jobs have started; of others nothing is said.
CREATE OR REPLACE FUNCTION limpet.v1_begin(p_session text, p_jobs text, p_tokens text)
RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE limpet.running r SET begun = true
    FROM unnest(limpet.v1_column(p_jobs), limpet.v1_column(p_tokens)) AS g (id, token)
    WHERE r.id = g.id AND r.session = p_session AND r.token = g.token::bigint AND NOT r.begun
$$;

-- open: the locks of an exchange, before it is known what to do; the last seq and the standing.
CREATE OR REPLACE FUNCTION limpet.v1_open(
    p_session text, p_lease bigint, OUT seq bigint, OUT standing text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT h.seq INTO seq FROM limpet.hold h WHERE h.session = p_session FOR UPDATE;
    standing := limpet.v1_standing(p_session, p_lease);
END $$;
