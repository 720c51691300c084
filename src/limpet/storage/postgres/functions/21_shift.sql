-- shift: carry out what was decided about running jobs (see storage/outcome.py).
-- purpose: running to ready, scheduled, quarantined or a final state, with its events and its error.
-- params:  the session; a JSON list of moves; the wall time. Every lease in it was found to hold in
--          the same transaction, and its row is locked (fence.sql).
-- returns: nothing; the digest of what the session holds is brought up to date.

CREATE OR REPLACE FUNCTION limpet.v1_shift(p_session text, p_moves jsonb, p_now bigint)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_count bigint;
    v_marks bigint;
BEGIN
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_moves) AS m (
            id text, move text, target text, holder text, settled text, sort_key bigint,
            ready_at bigint, failures integer, orphans integer, strikes integer, suspect boolean,
            last_run boolean, expires_at bigint, error text, told jsonb)
    ), taken AS (
        DELETE FROM limpet.running r
        WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m))
        RETURNING r.*
    ), gone AS (
        SELECT r.id, r.n, r.tail, r.queue, r.task, r.priority, m.sort_key, m.ready_at, r.round,
               r.token, m.failures, m.orphans, m.strikes, m.suspect, m.last_run, m.expires_at,
               r.deadline_at, m.holder AS session, r.claimed_at, r.cancel_requested_at,
               r.session AS held_by, r.mark, m.move, m.target, m.settled, m.error, m.told
        FROM taken r JOIN given m ON m.id = r.id
        WHERE r.session = p_session
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at
        FROM gone WHERE target = 'ready'
    ), parked AS (
        INSERT INTO limpet.parked
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               target
        FROM gone WHERE target IN ('scheduled', 'quarantined')
    ), done AS (
        INSERT INTO limpet.done
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               target, p_now, cancel_requested_at
        FROM gone WHERE target IN ('succeeded', 'failed', 'cancelled')
    ), told AS (
        INSERT INTO limpet.event (id, at, event, session, token, cause, claimed_at, settled)
        SELECT g.id, p_now, t.value ->> 'event', g.held_by, g.token, t.value ->> 'cause',
               g.claimed_at, g.settled
        FROM gone g CROSS JOIN jsonb_array_elements(g.told) WITH ORDINALITY t
        ORDER BY g.n, t.ordinality
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error)
        SELECT id, error FROM gone WHERE error IS NOT NULL
        ON CONFLICT (id) DO UPDATE SET error = excluded.error
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, move, 'running', target, count(*) FROM gone GROUP BY queue, move, target
    )
    SELECT count(*), sum(mark) INTO v_count, v_marks FROM gone;
    IF v_count <> jsonb_array_length(p_moves) THEN
        RAISE EXCEPTION 'a lease that was found to hold does not' USING ERRCODE = 'LP001';
    END IF;
    UPDATE limpet.hold
    SET held_count = held_count - v_count,
        held_total = (held_total - coalesce(v_marks, 0)) & 281474976710655
    WHERE session = p_session AND gen = (
        SELECT h.gen FROM limpet.hold h WHERE h.session = p_session ORDER BY h.gen DESC LIMIT 1);
END $$;
