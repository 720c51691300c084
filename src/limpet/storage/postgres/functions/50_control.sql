-- control: cancel and retry, on a person's word.
-- purpose: cancel: waiting or quarantined to cancelled; running to cancel requested. retry: a final
--          state to ready, in a new round. A job that moves meanwhile is looked for again.
-- params:  the job; the cause as JSON text, or the round that was seen; the wall time, or NULL.
-- returns: cancel: the state after it, NULL for no such job. retry: the state it was found in and the
--          round after it; NULL for no such job.

CREATE OR REPLACE FUNCTION limpet.v1_cancel(p_job text, p_cause text, p_wall bigint)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_row limpet.ready;
    v_source text;
    v_run record;
    v_state text;
BEGIN
    PERFORM limpet.v1_pass(false);
    FOR v_try IN 1..100 LOOP
        SELECT state INTO v_state FROM limpet.done WHERE id = p_job;
        IF FOUND THEN
            RETURN v_state;
        END IF;
        SELECT id, session, token, claimed_at, cancel_requested_at INTO v_run
        FROM limpet.running WHERE id = p_job FOR UPDATE;
        IF FOUND THEN
            IF v_run.cancel_requested_at IS NULL THEN
                UPDATE limpet.running SET cancel_requested_at = v_now WHERE id = p_job;
                INSERT INTO limpet.event (id, at, event, session, token, cause, claimed_at)
                VALUES (p_job, v_now, 'cancel_requested', v_run.session, v_run.token, p_cause,
                        v_run.claimed_at);
                PERFORM pg_notify('limpet.cancel', '');
            END IF;
            RETURN 'running';
        END IF;
        v_source := 'ready';
        DELETE FROM limpet.ready WHERE id = p_job RETURNING * INTO v_row;
        IF NOT FOUND THEN
            SELECT state INTO v_source FROM limpet.parked WHERE id = p_job FOR UPDATE;
            DELETE FROM limpet.parked WHERE id = p_job
            RETURNING id, n, tail, queue, task, priority, sort_key, ready_at, round, token,
                      failures, orphans, strikes, suspect, last_run, expires_at, deadline_at,
                      session, claimed_at
            INTO v_row;
        END IF;
        IF FOUND THEN
            INSERT INTO limpet.done SELECT v_row.*, 'cancelled', v_now, v_now;
            INSERT INTO limpet.trouble (id, error) VALUES (p_job, p_cause)
            ON CONFLICT (id) DO UPDATE SET error = excluded.error;
            INSERT INTO limpet.event (id, at, event, cause)
            VALUES (p_job, v_now, 'cancelled', p_cause);
            INSERT INTO limpet.tally VALUES (v_row.queue, 'cancel', v_source, 'cancelled', 1);
            PERFORM pg_notify('limpet.done', '');
            RETURN 'cancelled';
        END IF;
        PERFORM FROM limpet.job WHERE id = p_job;
        EXIT WHEN NOT FOUND;
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_retry(
    p_job text, p_seen integer, p_wall bigint, OUT source text, OUT round integer)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_row limpet.done;
BEGIN
    PERFORM limpet.v1_pass(false);
    SELECT d.* INTO v_row FROM limpet.done d WHERE d.id = p_job FOR UPDATE;
    IF NOT FOUND OR v_row.round <> p_seen THEN
        SELECT p.state, p.round INTO source, round FROM limpet.placed p WHERE p.id = p_job;
        RETURN;
    END IF;
    source := v_row.state;
    round := v_row.round + 1;
    IF v_row.state = 'succeeded' THEN
        -- It wrote no event when it happened, and the row is about to forget it.
        INSERT INTO limpet.event (id, at, event, session, token, claimed_at, settled)
        VALUES (p_job, v_row.finished_at, 'succeeded', v_row.session, v_row.token,
                v_row.claimed_at, 'complete');
    END IF;
    DELETE FROM limpet.done d WHERE d.id = p_job;
    DELETE FROM limpet.trouble t WHERE t.id = p_job;
    DELETE FROM limpet.progress g WHERE g.id = p_job;
    INSERT INTO limpet.ready (
        id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures, orphans,
        strikes, suspect, last_run)
    VALUES (p_job, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority,
            v_now - v_row.priority * 60000000::bigint, v_now, v_row.round + 1, v_row.token, 0, 0, 0,
            false, false);
    INSERT INTO limpet.event (id, at, event) VALUES (p_job, v_now, 'reopened');
    INSERT INTO limpet.tally VALUES (v_row.queue, 'reopen', v_row.state, 'ready', 1);
    PERFORM pg_notify('limpet.ready', '');
END $$;
