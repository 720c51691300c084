-- shift: carry out decisions about running jobs (see storage/sql/outcome.py).
-- purpose: carry: running to ready, scheduled, blocked, quarantined or a final state, with the events and the
--          error; updates the digest of what the session holds.
--          shift: carry, and what follows from it (see after).
-- params:  p_session: the session.
--          p_moves: a JSON list of moves (postgres/settle.py). Their leases were found to hold in the same
--          transaction, and their rows are locked (fence.sql).
--          p_now: the wall time.
-- returns: shift: nothing.
--          carry: ids: the jobs for whose end others may be waiting.
--                 targets: the states that these jobs are in now.
--                 crowded: whether a queue of the jobs has a limit, or one of the jobs had a permit.
-- errors:  LP001 where a lease does not hold after all.

CREATE OR REPLACE FUNCTION limpet.v1_shift(p_session text, p_moves jsonb, p_now bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_left record;
    v_moved integer := 0;
BEGIN
    SELECT * INTO v_left FROM limpet.v1_carry(p_session, p_moves, p_now);
    IF cardinality(v_left.ids) > 0 THEN
        SELECT a.moved INTO v_moved FROM limpet.v1_after(
            v_left.ids, v_left.targets, array_fill(true, ARRAY[cardinality(v_left.ids)]), NULL,
            NULL, true, p_now) a;
    END IF;
    IF v_left.crowded OR v_moved > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_carry(
    p_session text, p_moves jsonb, p_now bigint,
    OUT ids text[], OUT targets text[], OUT crowded boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_count bigint;
    v_marks bigint;
    v_idle text[];
BEGIN
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_moves) AS m (
            id text, move text, target text, holder text, settled text, sort_key bigint,
            ready_at bigint, failures integer, orphans integer, strikes integer, suspect boolean,
            last_run boolean, expires_at bigint, error text, entries jsonb, pending integer,
            relaunch_at bigint)
    ), taken AS (
        DELETE FROM limpet.running r
        WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m))
        RETURNING r.*
    ), gone AS (
        SELECT r.id, r.n, r.tail, r.queue, r.task, r.priority, m.sort_key, m.ready_at, r.round,
               r.token, m.failures, m.orphans, m.strikes, m.suspect, m.last_run, m.expires_at,
               r.deadline_at, m.holder AS session, r.claimed_at, r.cancel_requested_at, r.shaped,
               r.limited, r.session AS held_by, r.mark, m.move, m.target, m.settled, m.error,
               m.entries, coalesce(m.pending, 0) AS pending, m.relaunch_at
        FROM taken r JOIN given m ON m.id = r.id
        WHERE r.session = p_session
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               shaped
        FROM gone WHERE target = 'ready'
    ), parked AS (
        INSERT INTO limpet.parked
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               target, CASE WHEN target = 'blocked' THEN 'children' END,
               CASE WHEN target = 'blocked' THEN '' END,
               CASE WHEN target = 'blocked' THEN p_now END, shaped, pending
        FROM gone WHERE target IN ('scheduled', 'blocked', 'quarantined')
    ), done AS (
        INSERT INTO limpet.done
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               target, p_now, cancel_requested_at
        FROM gone WHERE target IN ('succeeded', 'failed', 'cancelled')
    ), again AS (
        INSERT INTO limpet.relaunch (id, at)
        SELECT id, relaunch_at FROM gone WHERE relaunch_at IS NOT NULL AND target = 'failed'
        ON CONFLICT (id) DO UPDATE SET at = excluded.at
    ), events AS (
        INSERT INTO limpet.event (id, at, event, session, token, cause, claimed_at, settled)
        SELECT g.id, p_now, t.value ->> 'event', g.held_by, g.token, t.value ->> 'cause',
               g.claimed_at, g.settled
        FROM gone g CROSS JOIN jsonb_array_elements(g.entries) WITH ORDINALITY t
        ORDER BY g.n, t.ordinality
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error)
        SELECT id, error FROM gone WHERE error IS NOT NULL
        ON CONFLICT (id) DO UPDATE SET error = excluded.error
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, move, 'running', target, count(*) FROM gone GROUP BY queue, move, target
    )
    SELECT count(*), sum(mark), coalesce(bool_or(limited), false),
           array_agg(id) FILTER (WHERE shaped AND target <> 'ready'),
           array_agg(target) FILTER (WHERE shaped AND target <> 'ready'),
           array_agg(id) FILTER (WHERE target = 'blocked' AND pending <= 0)
    INTO v_count, v_marks, crowded, ids, targets, v_idle FROM gone;
    IF v_count <> jsonb_array_length(p_moves) THEN
        RAISE EXCEPTION 'a lease that was found to hold does not' USING ERRCODE = 'LP001';
    END IF;
    IF crowded THEN
        PERFORM limpet.v1_give_back(
            p_session, ARRAY(SELECT m.value ->> 'id' FROM jsonb_array_elements(p_moves) m));
    END IF;
    IF v_idle IS NOT NULL THEN
        -- A job that has fanned out into no children; it joins the line of its key in after.
        PERFORM limpet.v1_children_ended(v_idle, array_fill(0, ARRAY[cardinality(v_idle)]), NULL, NULL, p_now);
        crowded := true;
    END IF;
    UPDATE limpet.hold
    SET held_count = held_count - v_count,
        held_total = (held_total - coalesce(v_marks, 0)) & 281474976710655
    WHERE session = p_session AND gen = (
        SELECT h.gen FROM limpet.hold h WHERE h.session = p_session ORDER BY h.gen DESC LIMIT 1);
END $$;
