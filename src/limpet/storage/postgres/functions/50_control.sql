-- control: what a person requests.
-- purpose: call_off: waiting or quarantined to cancelled; running to cancel requested.
--          retry: a final state to ready, in a new round.
--          repair: quarantined to ready, with other arguments.
--          requeue: waiting to waiting, in another queue.
--          A job that moves meanwhile is looked for again. A job with a key becomes blocked, and waits for
--          its turn, instead of ready.
-- params:  p_job, p_jobs: the job, or a column of jobs.
--          p_cause: the cause as JSON text.
--          p_seen: the round that the caller has seen.
--          p_wall: the wall time, or NULL.
-- returns: call_off: state: the state after it, NULL for no such job.
--                    busy: whether another transaction has rows locked that follow from the cancellation; a
--                    note is left for them.
--          retry: source: the state in which the job was found, NULL for no such job.
--                 round: the round after it; -1 where another job holds its unique.
--          repair: source, state: the states before and after it; state is NULL where the job was not
--                  quarantined.
--          requeue: how many jobs were moved.

CREATE OR REPLACE FUNCTION limpet.v1_call_off(
    p_job text, p_cause text, p_wall bigint, OUT state text, OUT busy boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_stop record;
    v_after record;
BEGIN
    PERFORM limpet.v1_pass(false);
    busy := false;
    SELECT * INTO v_stop FROM limpet.v1_stop(p_job, p_cause, v_now, true);
    IF v_stop.state = 'failed' THEN
        DELETE FROM limpet.relaunch WHERE id = p_job;
    ELSIF v_stop.stopped THEN
        IF v_stop.followed THEN
            SELECT * INTO v_after FROM limpet.v1_after(
                ARRAY[p_job], ARRAY['cancelled'], ARRAY[v_stop.turn], ARRAY[v_stop.alone], NULL,
                true, v_now);
            busy := v_after.busy;
            IF v_after.moved > 0 THEN
                PERFORM pg_notify('limpet.ready', '');
            END IF;
        END IF;
        PERFORM pg_notify('limpet.done', '');
    END IF;
    state := v_stop.state;
END $$;

-- stop: as call_off, for one job, without what follows (see after).
-- state: the state after it; 'busy' where p_waits is false and another transaction has the job locked.
-- stopped: whether the job was cancelled by this call. turn: whether it had a turn. alone: whether it waited
-- for children. followed: whether anything follows.
CREATE OR REPLACE FUNCTION limpet.v1_stop(
    p_job text, p_cause text, p_now bigint, p_waits boolean, OUT state text, OUT stopped boolean,
    OUT turn boolean, OUT alone boolean, OUT followed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_row limpet.ready;
    v_source text;
    v_run record;
    v_parked record;
BEGIN
    stopped := false;
    FOR v_try IN 1..100 LOOP
        SELECT d.state INTO state FROM limpet.done d WHERE d.id = p_job;
        IF FOUND THEN
            RETURN;
        END IF;
        IF NOT p_waits AND NOT limpet.v1_free_job(p_job)
           AND EXISTS (SELECT FROM limpet.placed p WHERE p.id = p_job) THEN
            state := 'busy';
            RETURN;
        END IF;
        SELECT r.id, r.session, r.token, r.claimed_at, r.cancel_requested_at INTO v_run
        FROM limpet.running r WHERE r.id = p_job FOR UPDATE;
        IF FOUND THEN
            IF v_run.cancel_requested_at IS NULL THEN
                UPDATE limpet.running SET cancel_requested_at = p_now WHERE id = p_job;
                INSERT INTO limpet.event (id, at, event, session, token, cause, claimed_at)
                VALUES (p_job, p_now, 'cancel_requested', v_run.session, v_run.token, p_cause,
                        v_run.claimed_at);
                PERFORM pg_notify('limpet.cancel', '');
            END IF;
            state := 'running';
            RETURN;
        END IF;
        v_source := 'ready';
        alone := false;
        DELETE FROM limpet.ready r WHERE r.id = p_job RETURNING * INTO v_row;
        turn := v_row.shaped;
        IF NOT FOUND THEN
            SELECT b.state, b.turn, b.reason INTO v_parked
            FROM limpet.parked b WHERE b.id = p_job FOR UPDATE;
            IF FOUND THEN            -- a job that is parked only now is looked for again
                v_source := v_parked.state;
                turn := v_parked.turn;
                alone := coalesce(v_parked.reason = 'children', false);
                DELETE FROM limpet.parked b WHERE b.id = p_job
                RETURNING id, n, tail, queue, task, priority, sort_key, ready_at, round, token,
                          failures, orphans, strikes, suspect, last_run, expires_at, deadline_at,
                          session, claimed_at, shaped
                INTO v_row;
            END IF;
        END IF;
        IF FOUND THEN
            INSERT INTO limpet.done
            VALUES (v_row.id, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority,
                    v_row.sort_key, v_row.ready_at, v_row.round, v_row.token, v_row.failures,
                    v_row.orphans, v_row.strikes, v_row.suspect, v_row.last_run, v_row.expires_at,
                    v_row.deadline_at, v_row.session, v_row.claimed_at, 'cancelled', p_now, p_now);
            INSERT INTO limpet.trouble (id, error) VALUES (p_job, p_cause)
            ON CONFLICT (id) DO UPDATE SET error = excluded.error;
            INSERT INTO limpet.event (id, at, event, cause)
            VALUES (p_job, p_now, 'cancelled', p_cause);
            INSERT INTO limpet.tally VALUES (v_row.queue, 'cancel', v_source, 'cancelled', 1);
            state := 'cancelled';
            stopped := true;
            followed := v_row.shaped OR alone;
            RETURN;
        END IF;
        PERFORM FROM limpet.job WHERE id = p_job;
        EXIT WHEN NOT FOUND;
    END LOOP;
END $$;

-- free_job: lock the row of an unfinished job, unless another transaction has it locked; whether it did.
CREATE OR REPLACE FUNCTION limpet.v1_free_job(p_job text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM limpet.running r WHERE r.id = p_job FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM limpet.ready r WHERE r.id = p_job FOR UPDATE SKIP LOCKED;
    END IF;
    IF NOT FOUND THEN
        PERFORM FROM limpet.parked b WHERE b.id = p_job FOR UPDATE SKIP LOCKED;
    END IF;
    RETURN FOUND;
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
    round := -1;
    IF limpet.v1_reopen(p_job, 'reopened', v_now) IS NOT NULL THEN
        round := v_row.round + 1;
        PERFORM pg_notify('limpet.ready', '');
    END IF;
END $$;

-- reopen: begin a new round of one job, which is locked; the state after it, or NULL where another job holds
-- its unique.
CREATE OR REPLACE FUNCTION limpet.v1_reopen(p_job text, p_event text, p_now bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_row limpet.done;
    v_job record;
    v_held record;
    v_note record;
    v_state text;
BEGIN
    SELECT d.* INTO v_row FROM limpet.done d WHERE d.id = p_job;
    SELECT j.key, j.parent, j.unique_key, j.created_at, limpet.v1_rules(j.rules) AS rules INTO v_job
    FROM limpet.job j WHERE j.id = p_job;
    DELETE FROM limpet.relaunch r WHERE r.id = p_job;
    IF v_job.unique_key IS NOT NULL THEN
        SELECT * INTO v_held FROM limpet.v1_taken(
            v_row.task, v_job.unique_key, p_job, CASE WHEN v_job.rules ->> 'unique_until' = 'time'
                THEN v_job.created_at + (v_job.rules ->> 'unique_for')::bigint END, false, p_now);
        IF v_held.id IS NOT NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    -- The job gives its old turn back before it waits for another. In a loop, because a transaction that was
    -- just finishing the note may have left a new one.
    WHILE EXISTS (SELECT FROM limpet.note o WHERE o.kind = 'ended' AND o.what = p_job) LOOP
        DELETE FROM limpet.note o WHERE o.kind = 'ended' AND o.what = p_job
        RETURNING o.turn, o.alone INTO v_note;
        IF FOUND THEN
            PERFORM limpet.v1_after(ARRAY[p_job], ARRAY[v_row.state], ARRAY[v_note.turn],
                                    ARRAY[v_note.alone], NULL, true, p_now);
        END IF;
    END LOOP;
    IF v_row.state = 'succeeded' THEN
        -- A success writes no event when it happens, and the row that records it is deleted below.
        INSERT INTO limpet.event (id, at, event, session, token, claimed_at, settled)
        VALUES (p_job, v_row.finished_at, 'succeeded', v_row.session, v_row.token,
                v_row.claimed_at, 'complete');
    END IF;
    DELETE FROM limpet.done d WHERE d.id = p_job;
    DELETE FROM limpet.trouble t WHERE t.id = p_job;
    DELETE FROM limpet.progress g WHERE g.id = p_job;
    v_state := CASE WHEN v_job.key IS NULL THEN 'ready' ELSE 'blocked' END;
    INSERT INTO limpet.event (id, at, event) VALUES (p_job, p_now, p_event);
    INSERT INTO limpet.tally VALUES (v_row.queue, 'reopen', v_row.state, v_state, 1);
    IF v_state = 'ready' THEN
        INSERT INTO limpet.ready (
            id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures, orphans,
            strikes, suspect, last_run, shaped)
        VALUES (p_job, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority,
                p_now - v_row.priority * 60000000::bigint, p_now, v_row.round + 1, v_row.token, 0, 0,
                0, false, false, v_job.parent IS NOT NULL);
        RETURN v_state;
    END IF;
    INSERT INTO limpet.parked (
        id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures, orphans,
        strikes, suspect, last_run, state, reason, what, since, shaped)
    VALUES (p_job, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority,
            p_now - v_row.priority * 60000000::bigint, p_now, v_row.round + 1, v_row.token, 0, 0, 0,
            false, false, 'blocked', 'key',
            limpet.v1_line_place(v_job.key, p_now - v_row.priority * 60000000::bigint, v_row.n), p_now,
            true);
    PERFORM limpet.v1_turns(limpet.v1_expect_jobs(ARRAY[p_job], NULL), ARRAY[0], p_now);
    RETURN (SELECT p.state FROM limpet.placed p WHERE p.id = p_job);
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_repair(
    p_job text, p_args text, p_version integer, p_secrets text, p_wall bigint,
    OUT source text, OUT state text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_row limpet.parked;
    v_key text;
    v_sort_key bigint;
BEGIN
    PERFORM limpet.v1_pass(false);
    DELETE FROM limpet.parked b WHERE b.id = p_job AND b.state = 'quarantined' RETURNING * INTO v_row;
    IF NOT FOUND THEN
        SELECT p.state INTO source FROM limpet.placed p WHERE p.id = p_job;
        RETURN;
    END IF;
    source := 'quarantined';
    UPDATE limpet.job j SET args = p_args, payload_version = p_version, secrets = p_secrets
    WHERE j.id = p_job RETURNING j.key INTO v_key;
    DELETE FROM limpet.trouble t WHERE t.id = p_job;
    v_sort_key := v_now - v_row.priority * 60000000::bigint;
    INSERT INTO limpet.event (id, at, event) VALUES (p_job, v_now, 'repaired');
    state := CASE WHEN v_key IS NULL THEN 'ready' ELSE 'blocked' END;
    INSERT INTO limpet.tally VALUES (v_row.queue, 'repair', 'quarantined', state, 1);
    IF v_key IS NULL THEN
        INSERT INTO limpet.ready
        VALUES (v_row.id, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority, v_sort_key,
                v_now, v_row.round, v_row.token, v_row.failures, v_row.orphans, v_row.strikes,
                v_row.suspect, v_row.last_run, v_row.expires_at, v_row.deadline_at, v_row.session,
                v_row.claimed_at, v_row.shaped);
    ELSE
        INSERT INTO limpet.parked
        VALUES (v_row.id, v_row.n, v_row.tail, v_row.queue, v_row.task, v_row.priority, v_sort_key,
                v_now, v_row.round, v_row.token, v_row.failures, v_row.orphans, v_row.strikes,
                v_row.suspect, v_row.last_run, v_row.expires_at, v_row.deadline_at, v_row.session,
                v_row.claimed_at, 'blocked', 'key', limpet.v1_line_place(v_key, v_sort_key, v_row.n),
                v_now, true);
        PERFORM limpet.v1_turns(limpet.v1_expect_jobs(ARRAY[p_job], NULL), ARRAY[0], v_now);
        SELECT p.state INTO state FROM limpet.placed p WHERE p.id = p_job;
    END IF;
    PERFORM pg_notify('limpet.ready', '');
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_requeue(p_jobs text, p_queue text, p_wall bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_ids text[] := limpet.v1_column(p_jobs);
    v_moved text[];
    v_keys text[];
    v_job text;
BEGIN
    PERFORM limpet.v1_pass(false);
    FOR v_job IN SELECT DISTINCT g.id COLLATE "C" FROM unnest(v_ids) AS g (id) ORDER BY 1 LOOP
        PERFORM FROM limpet.ready r WHERE r.id = v_job AND r.queue <> p_queue FOR UPDATE;
        IF NOT FOUND THEN
            PERFORM FROM limpet.parked b
            WHERE b.id = v_job AND b.queue <> p_queue AND b.state <> 'quarantined' FOR UPDATE;
        END IF;
    END LOOP;
    WITH there AS (
        SELECT r.id, r.queue FROM limpet.ready r
        WHERE r.id = ANY (v_ids) AND r.queue <> p_queue FOR UPDATE SKIP LOCKED
    ), parked AS (
        SELECT b.id, b.queue, b.state FROM limpet.parked b
        WHERE b.id = ANY (v_ids) AND b.queue <> p_queue AND b.state <> 'quarantined'
        FOR UPDATE SKIP LOCKED
    ), ready AS (
        UPDATE limpet.ready r SET queue = p_queue FROM there t WHERE r.id = t.id
        RETURNING r.id, r.n, t.queue, 'ready' AS state
    ), waiting AS (
        UPDATE limpet.parked b SET queue = p_queue FROM parked t WHERE b.id = t.id
        RETURNING b.id, b.n, t.queue, t.state
    ), moved AS (
        SELECT * FROM ready UNION ALL SELECT * FROM waiting
    ), job AS (
        UPDATE limpet.job j SET queue = p_queue FROM moved m WHERE j.id = m.id
    ), events AS (
        INSERT INTO limpet.event (id, at, event) SELECT id, v_now, 'requeued' FROM moved ORDER BY n
    ), counted AS (
        -- The move counts for the queue that the job goes to.
        INSERT INTO limpet.tally
        SELECT queue, '', state, NULL, count(*) FROM moved GROUP BY queue, state
        UNION ALL
        SELECT p_queue, 'requeue', NULL, state, count(*) FROM moved GROUP BY state
    )
    SELECT array_agg(id) INTO v_moved FROM moved;
    IF v_moved IS NOT NULL THEN
        -- The rows were locked here, so transactions that gave turns have skipped them.
        SELECT array_agg(DISTINCT j.key) INTO v_keys
        FROM limpet.job j JOIN limpet.parked b ON b.id = j.id
        WHERE j.id = ANY (v_moved) AND (b.reason = 'key') IS TRUE;
        IF v_keys IS NOT NULL THEN
            PERFORM limpet.v1_turns(
                limpet.v1_keys(v_keys), array_fill(0, ARRAY[cardinality(v_keys)]), v_now);
        END IF;
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    RETURN coalesce(cardinality(v_moved), 0);
END $$;
