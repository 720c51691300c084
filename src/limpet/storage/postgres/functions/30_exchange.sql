-- exchange: the hot path, settle and claim in one step.
-- purpose: running to succeeded for jobs that are done, and to the states in p_moves for others; ready to
--          running for claimed jobs. The same seq gets the same answer.
-- params:  p_session, p_seq: the session, and the number of this exchange.
--          p_done, p_tokens, p_results, p_secrets: columns of the jobs that are done: ids, tokens, results
--          (NULL where the task returned None) and paths of secrets.
--          p_moves: what was decided about other jobs, as JSON (see shift).
--          p_rejected: leases that do not hold (fence.sql), as JSON.
--          p_want: the pools, and the gate, as JSON (see claim); NULL to claim nothing.
--          p_begun, p_begun_tokens: columns of leases whose jobs have begun.
--          p_wall, p_lease: wall and lease time, or NULL for the server's clock.
-- returns: a first row, with its answers in columns of other names:
--            job: the verdict: done, repeat, late, ahead or unknown.
--            token: the last seq.
--            task: the standing.
--            queue: the leases that were rejected.
--            round: how many jobs became ready.
--            strikes: what was left for the gate.
--            suspect: whether nothing may be claimed now.
--            last_run: whether something is left for promote.
--            deadline_at: when to come back for more.
--          then a row for each job that was claimed, in order.
-- errors:  LP001, with nothing written, where one of the jobs that are done is not held.

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
    v_jobs text[] := '{}';
    v_taken bigint := 0;
    v_lines jsonb;
    v_until bigint;
    v_gen bigint;
    v_base bigint;
    v_quiet boolean := false;
    v_closed text := limpet.v1_pass(false);
    v_ids text[];
    v_targets text[];
    v_crowded boolean := false;
    v_carried record;
    v_moved integer := 0;
    v_notes integer;
    v_unfinished boolean := false;
    v_next bigint;
    v_passed integer;
BEGIN
    SELECT h.gen, h.seq, h.rejected, h.lines, h.lines_until, h.next_at, h.passed_over
    INTO v_gen, v_seq, v_rejected, v_lines, v_until, v_next, v_passed
    FROM limpet.hold h WHERE h.session = p_session ORDER BY h.gen DESC LIMIT 1 FOR UPDATE;
    v_standing := limpet.v1_standing(p_session, p_lease);
    IF v_seq IS NULL OR v_standing IS NULL THEN
        RETURN QUERY SELECT 'unknown', 0::bigint, '', '[]', 0, 0, 0, 0, false, false, 0, '', '', '',
                            0::bigint;
        RETURN;
    END IF;
    IF p_seq <> v_seq + 1 THEN
        RETURN QUERY SELECT CASE WHEN p_seq = v_seq AND p_seq > 0 THEN 'repeat'
                                 WHEN p_seq < greatest(v_seq, 1) THEN 'late' ELSE 'ahead' END,
                            v_seq, v_standing, v_rejected, 0, 0, 0, v_passed, false, false, 0, '', '',
                            '', v_next;
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
    v_next := NULL;
    v_passed := 0;

    IF p_begun IS NOT NULL AND v_standing <> 'dead' THEN
        PERFORM limpet.v1_begin(p_session, p_begun, p_begun_tokens, NULL);
    END IF;
    IF p_done IS NOT NULL THEN
        IF v_standing = 'dead' THEN
            RAISE EXCEPTION 'a dead session holds nothing' USING ERRCODE = 'LP001';
        END IF;
        SELECT c.number, c.marks, c.shaped, c.crowded INTO v_count, v_marks, v_ids, v_crowded
        FROM limpet.v1_complete(p_session, p_done, p_tokens, p_results, p_secrets, v_now) c;
        IF v_ids IS NOT NULL THEN
            v_targets := array_fill('succeeded'::text, ARRAY[cardinality(v_ids)]);
        END IF;
    END IF;
    IF p_moves IS NOT NULL THEN
        SELECT * INTO v_carried FROM limpet.v1_carry(p_session, p_moves, v_now);
        v_ids := v_ids || v_carried.ids;
        v_targets := v_targets || v_carried.targets;
        v_crowded := v_crowded OR v_carried.crowded;
    END IF;
    IF v_ids IS NOT NULL THEN
        SELECT a.moved, a.unfinished INTO v_moved, v_unfinished FROM limpet.v1_after(
            v_ids, v_targets, array_fill(true, ARRAY[cardinality(v_ids)]), NULL, NULL, true, v_now) a;
    END IF;
    IF EXISTS (SELECT FROM limpet.note) THEN
        SELECT n.moved INTO v_notes FROM limpet.v1_notes(v_now, v_ids IS NULL) n;
        v_moved := v_moved + v_notes;
        v_unfinished := v_unfinished OR EXISTS (SELECT FROM limpet.note);
    END IF;
    IF p_moves @? '$[*].holds' THEN
        -- Lock all queues by name, because the claim then locks some of them by name.
        PERFORM FROM limpet.queue q ORDER BY q.name FOR UPDATE;
        INSERT INTO limpet.queue AS q (name, held_until)
        SELECT j.queue, max((m.value ->> 'holds')::bigint)
        FROM jsonb_array_elements(p_moves) m JOIN limpet.job j ON j.id = m.value ->> 'id'
        WHERE m.value ? 'holds' GROUP BY j.queue ORDER BY j.queue
        ON CONFLICT (name) DO UPDATE SET held_until = greatest(q.held_until, excluded.held_until);
    END IF;
    IF p_want IS NOT NULL AND v_standing = 'live' AND v_closed IS NULL THEN
        SELECT v.base, v.quiet INTO v_base, v_quiet
        FROM limpet.session s CROSS JOIN LATERAL limpet.v1_server(s.lease, p_wall, p_lease) v
        WHERE s.id = p_session;
        IF NOT v_quiet THEN
            SELECT c.jobs, c.marks, c.lines, c.until, c.next_at, c.passed_over
            INTO v_jobs, v_taken, v_lines, v_until, v_next, v_passed
            FROM limpet.v1_claim(p_session, p_seq, p_want, v_now, v_base, v_lines, v_until) c;
        END IF;
    END IF;
    UPDATE limpet.hold h
    SET seq = p_seq, rejected = p_rejected, lines = v_lines, lines_until = v_until,
        held_count = h.held_count - v_count + cardinality(v_jobs),
        held_total = (h.held_total - coalesce(v_marks, 0) + v_taken) & 281474976710655,
        gen = p_seq / 128, next_at = v_next, passed_over = v_passed
    WHERE h.session = p_session AND h.gen = v_gen;

    RETURN QUERY SELECT 'done', p_seq, v_standing, p_rejected, v_moved + v_crowded::integer, 0, 0,
                        v_passed, v_quiet, v_unfinished, 0, '', '', '', v_next;
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

-- complete: running to succeeded, all or none.
-- number: how many jobs. marks: the sum of their marks. shaped: the jobs for whose end others may be waiting.
-- crowded: whether a queue of the jobs has a limit, or one of the jobs had a permit.
CREATE OR REPLACE FUNCTION limpet.v1_complete(
    p_session text, p_jobs text, p_tokens text, p_results text, p_secrets text, p_now bigint,
    OUT number bigint, OUT marks bigint, OUT shaped text[], OUT crowded boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_jobs text[] := limpet.v1_column(p_jobs);
    v_failed text[];
BEGIN
    WITH gone AS (
        -- The session is checked first, so that nobody waits for a job of another session: two sessions that
        -- settle too late might wait for each other.
        DELETE FROM limpet.running r
        WHERE r.id = ANY (v_jobs) AND (r.session = p_session) IS TRUE RETURNING r.*
    ), held AS (
        SELECT r.*, g.result, g.secrets FROM gone r
        JOIN unnest(v_jobs, limpet.v1_column(p_tokens)::bigint[], limpet.v1_column(p_results),
                    limpet.v1_column(p_secrets)) AS g (id, token, result, secrets)
        ON g.id = r.id AND g.token = r.token
    ), kept AS (
        INSERT INTO limpet.done
        SELECT h.id, h.n, h.tail, h.queue, h.task, h.priority, h.sort_key, h.ready_at, h.round,
               h.token, h.failures, h.orphans, h.strikes, h.suspect, h.last_run, h.expires_at,
               h.deadline_at, h.session, h.claimed_at, 'succeeded', p_now, h.cancel_requested_at,
               h.result, h.secrets
        FROM held h
        RETURNING queue, id, failures + orphans > 0 AS tried
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT k.queue, 'complete', 'running', 'succeeded', count(*) FROM kept k GROUP BY k.queue
    )
    SELECT (SELECT count(*) FROM kept), (SELECT sum(r.mark) FROM gone r),
           (SELECT array_agg(k.id) FROM kept k WHERE k.tried),
           (SELECT array_agg(r.id) FROM gone r WHERE r.shaped),
           EXISTS (SELECT FROM gone r WHERE r.limited)
    INTO number, marks, v_failed, shaped, crowded;
    IF number <> cardinality(v_jobs) THEN
        RAISE EXCEPTION 'a job that is done is not held' USING ERRCODE = 'LP001';
    END IF;
    IF crowded THEN
        PERFORM limpet.v1_give_back(p_session, v_jobs);
    END IF;
    IF v_failed IS NOT NULL THEN
        -- The error of an earlier attempt.
        DELETE FROM limpet.trouble t WHERE t.id = ANY (v_failed);
    END IF;
END $$;

-- begin: mark held jobs as begun; jobs that are not held are ignored. `p_free`: only these jobs, or NULL.
CREATE OR REPLACE FUNCTION limpet.v1_begin(
    p_session text, p_jobs text, p_tokens text, p_free text[])
RETURNS void LANGUAGE sql VOLATILE AS $$
    UPDATE limpet.running r SET begun = true
    WHERE r.id = ANY (limpet.v1_column(p_jobs)) AND NOT r.begun
      AND (p_free IS NULL OR r.id = ANY (p_free))
      AND (r.session = p_session) IS TRUE  -- not by its index, which has more to read
      AND r.token = ANY (ARRAY(
          SELECT g.token::bigint
          FROM unnest(limpet.v1_column(p_jobs), limpet.v1_column(p_tokens)) AS g (id, token)
          WHERE g.id = r.id))
$$;

-- open: lock the session for an exchange that is decided later; return the last seq and the standing.
CREATE OR REPLACE FUNCTION limpet.v1_open(
    p_session text, p_lease bigint, OUT seq bigint, OUT standing text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM limpet.v1_pass(false);
    SELECT h.seq INTO seq FROM limpet.hold h
    WHERE h.session = p_session ORDER BY h.gen DESC LIMIT 1 FOR UPDATE;
    standing := limpet.v1_standing(p_session, p_lease);
END $$;
