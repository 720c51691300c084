-- session: begin, renew and end sessions.
-- purpose: register: (nothing) to live, and blocked jobs whose task it knows to ready.
--          renew: one small write, however many jobs are held.
--          end: live or draining to dead, for ever; removes the permit of a caller outside.
-- params:  as those of the verbs.
--          p_tasks, p_pools: digests of tasks.
--          p_known: the tasks of each digest, as JSON.
--          p_wall, p_lease: wall and lease time, or NULL for the server's clock.
-- returns: register: was: the state in which the session was found, NULL for a new one.
--                    moment, tasks: those of the session.
--                    epoch: the epoch of the store.
--          renew: standing: NULL for no such session.
--                 moment, seq, held_count, held_total (the digest), epoch.
--                 cancels: the leases to cancel, as JSON.
--                 paused: the paused queues, as JSON.
--                 untold: leases that could not be marked as begun, as JSON.
--          end: whether the session was not dead before.

CREATE OR REPLACE FUNCTION limpet.v1_register(
    p_id text, p_kind text, p_name text, p_host text, p_pid bigint, p_boot text, p_duration bigint,
    p_tasks text, p_pools text, p_lock text, p_known jsonb, p_wall bigint, p_lease bigint,
    OUT was text, OUT moment bigint, OUT tasks text, OUT epoch text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
BEGIN
    PERFORM limpet.v1_pass(true);
    -- So that prune does not remove tasks that this session needs; see due.sql.
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('limpet.taskset', 0));
    SELECT s.epoch INTO epoch FROM limpet.store s;
    moment := limpet.v1_time(p_lease) + p_duration;
    tasks := p_tasks;
    INSERT INTO limpet.session (
        id, kind, name, host, pid, boot, lease, state, moment, tasks, pools, lock, registered_at,
        renewed_at)
    VALUES (p_id, p_kind, p_name, p_host, p_pid, p_boot, p_duration, 'live', moment, p_tasks,
            p_pools, p_lock, v_now, v_now)
    ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        SELECT s.state, s.moment, s.tasks INTO was, moment, tasks
        FROM limpet.session s WHERE s.id = p_id;
        RETURN;
    END IF;
    INSERT INTO limpet.hold (session) VALUES (p_id);
    INSERT INTO limpet.taskset (digest, task)
    SELECT known.key, task.value
    FROM jsonb_each(p_known) known CROSS JOIN jsonb_array_elements_text(known.value) task
    ORDER BY 1, 2
    ON CONFLICT DO NOTHING;
    PERFORM limpet.v1_unblock(p_tasks, v_now);
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_renew(
    p_session text, p_begun text, p_begun_tokens text, p_draining boolean, p_stepped boolean,
    p_wall bigint, p_lease bigint, OUT standing text, OUT moment bigint, OUT seq bigint,
    OUT held_count bigint, OUT held_total bigint, OUT cancels json, OUT paused json,
    OUT epoch text, OUT untold json)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_wall);
    v_lease bigint;
    v_tasks text;
    v_free text[];
BEGIN
    PERFORM limpet.v1_pass(false);
    PERFORM FROM limpet.session s WHERE s.id = p_session FOR NO KEY UPDATE;
    v_lease := limpet.v1_time(p_lease);  -- read only now, because the lock may have been waited for
    UPDATE limpet.session s
    SET moment = v_lease + s.lease, renewed_at = v_now, renewals = s.renewals + 1,
        state = CASE WHEN p_draining THEN 'draining' ELSE s.state END
    WHERE s.id = p_session AND s.state <> 'dead' AND (p_stepped OR s.moment > v_lease)
    RETURNING s.state, s.moment, s.tasks INTO standing, moment, v_tasks;
    IF FOUND THEN
        -- unblock moves 1,000 jobs at most, so a session may still have jobs to unblock.
        PERFORM limpet.v1_unblock(v_tasks, v_now);
    ELSE
        SELECT CASE s.state WHEN 'dead' THEN 'dead' ELSE 'past' END, s.moment
        INTO standing, moment FROM limpet.session s WHERE s.id = p_session;
    END IF;
    IF p_begun IS NOT NULL AND standing <> 'dead' THEN
        -- A renewal does not wait for an exchange, or for another writer under the lease of a job.
        v_free := ARRAY(
            SELECT r.id FROM limpet.running r
            WHERE r.id = ANY (limpet.v1_column(p_begun)) AND NOT r.begun
              AND (r.session = p_session) IS TRUE
            FOR NO KEY UPDATE SKIP LOCKED);
        PERFORM limpet.v1_begin(p_session, p_begun, p_begun_tokens, v_free);
        SELECT json_agg(json_build_array(r.id, r.token)) INTO untold FROM limpet.running r
        WHERE r.id = ANY (limpet.v1_column(p_begun)) AND NOT r.begun
          AND (r.session = p_session) IS TRUE;
    END IF;
    SELECT h.seq, h.held_count, h.held_total INTO seq, held_count, held_total
    FROM limpet.hold h WHERE h.session = p_session ORDER BY h.gen DESC LIMIT 1;
    SELECT json_agg(json_build_array(c.id, c.token)) INTO cancels FROM (
        SELECT r.id, r.token FROM limpet.running r
        WHERE r.session = p_session AND r.cancel_requested_at IS NOT NULL LIMIT 1000) c;
    SELECT json_agg(q.name ORDER BY q.name) INTO paused FROM limpet.queue q WHERE q.paused;
    SELECT s.epoch INTO epoch FROM limpet.store s;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_end(p_session text, p_cause text, p_wall bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ended boolean;
BEGIN
    -- This waits for an exchange under way; see standing.
    PERFORM FROM limpet.session WHERE id = p_session AND state <> 'dead' FOR UPDATE;
    UPDATE limpet.session SET state = 'dead', ended_at = limpet.v1_time(p_wall), cause = p_cause
    WHERE id = p_session AND state <> 'dead';
    v_ended := FOUND;
    DELETE FROM limpet.permit WHERE holder = p_session;
    IF FOUND THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    RETURN v_ended;
END $$;
