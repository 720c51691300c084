-- gate: what may begin on a host beside the permits it has given (see storage/contract/gating.py).
-- purpose: enter: lock the gate of a host.
--          pick_for_gate: which jobs a claim takes where some of them have a weight.
--          carries: whether a host has room for a weight with nothing else there.
--          permit: write the permits of jobs that were taken.
--          take_permit: give a permit to a caller outside.
--          give_back: remove the permits of jobs that have left running.
-- params:  p_room: the room of a host as JSON: domain.permit.Room, how long a reservation lasts, and for a
--          caller after which wait it reserves.
--          p_gate: the gate of a claim as JSON: such a room, the weights of tasks, and after which wait jobs
--          reserve.
--          p_weight: what a job weighs, as JSON: cpu in thousandths of a core, memory, heavy.
--          p_now: the wall time.
-- returns: enter: whether the lock was free; then this transaction has it.
--          pick_for_gate: picked: the jobs.
--                         passed_over: what was left for the gate, as domain.permit.PassedOver.
--          take_permit: standing: NULL for no such session.
--                       given: whether the session has a permit.
-- why:     two transactions that both read the sums before the other has written would both see the same
--          room. So a transaction locks the gate of the host, and reads the sums in a later statement. A
--          claim has keys and queues locked by then: it does not wait for the gate, passes over jobs with a
--          weight, and comes back soon. A caller has nothing locked, and waits. Permits are removed
--          without the gate: a transaction that does not see the removal yet admits too little, and a bell
--          rings after it.

CREATE OR REPLACE FUNCTION limpet.v1_enter(p_server text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('limpet.gate ' || p_server, 0))
$$;

-- carried: what the permits of a host add up to, as domain.permit.Taken.
CREATE OR REPLACE FUNCTION limpet.v1_carried(p_room jsonb, p_now bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_since bigint := p_now - (p_room ->> 'unseen')::bigint;
BEGIN
    RETURN (
        SELECT jsonb_build_object(
            'permits', count(*), 'heavy', count(*) FILTER (WHERE p.heavy),
            'cpu', coalesce(sum(p.cpu), 0), 'memory', coalesce(sum(p.memory), 0),
            'unseen_cpu', coalesce(sum(p.cpu) FILTER (WHERE p.at > v_since), 0),
            'unseen_memory', coalesce(sum(p.memory) FILTER (WHERE p.at > v_since), 0))
        FROM limpet.permit p WHERE p.server = p_room ->> 'server');
END $$;

-- plus: what carried returns, with one more permit.
CREATE OR REPLACE FUNCTION limpet.v1_plus(p_carried jsonb, p_weight jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT jsonb_build_object(
            'permits', c.permits + 1, 'heavy', c.heavy + w.heavy::integer,
            'cpu', c.cpu + w.cpu, 'memory', c.memory + w.memory,
            'unseen_cpu', c.unseen_cpu + w.cpu, 'unseen_memory', c.unseen_memory + w.memory)
        FROM jsonb_to_record(p_carried) AS c (
                 permits bigint, heavy bigint, cpu bigint, memory bigint, unseen_cpu bigint,
                 unseen_memory bigint)
        CROSS JOIN jsonb_to_record(p_weight) AS w (cpu bigint, memory bigint, heavy boolean));
END $$;

-- fits: whether one more permit may be given, as domain.permit.fits decides it.
CREATE OR REPLACE FUNCTION limpet.v1_fits(p_room jsonb, p_carried jsonb, p_weight jsonb)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT c.heavy = 0 AND (NOT w.heavy OR (c.permits = 0 AND r.calm))
           AND c.cpu + w.cpu <= r.cpu AND c.memory + w.memory <= r.memory
           AND (w.cpu = 0 OR r.free_cpu IS NULL OR c.unseen_cpu < r.free_cpu)
           AND (w.memory = 0 OR r.free_memory IS NULL
                OR c.unseen_memory + w.memory <= r.free_memory)
        FROM jsonb_to_record(p_room) AS r (
                 cpu bigint, memory bigint, free_cpu bigint, free_memory bigint, calm boolean)
        CROSS JOIN jsonb_to_record(p_carried) AS c (
                 permits bigint, heavy bigint, cpu bigint, memory bigint, unseen_cpu bigint,
                 unseen_memory bigint)
        CROSS JOIN jsonb_to_record(p_weight) AS w (cpu bigint, memory bigint, heavy boolean));
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_carries(p_room jsonb, p_weight jsonb)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (p_weight ->> 'cpu')::bigint <= (p_room ->> 'cpu')::bigint
       AND (p_weight ->> 'memory')::bigint <= (p_room ->> 'memory')::bigint;
END $$;

-- helped: whether a weight that does not fit might fit once other permits are gone, as
-- domain.permit.helped_by_an_end decides it.
CREATE OR REPLACE FUNCTION limpet.v1_helped(p_room jsonb, p_carried jsonb, p_weight jsonb)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT c.permits > 0 AND limpet.v1_carries(p_room, p_weight)
           AND (w.cpu = 0 OR r.free_cpu IS NULL OR r.free_cpu + c.cpu - c.unseen_cpu > 0)
           AND (r.free_memory IS NULL OR r.free_memory + c.memory - c.unseen_memory >= w.memory)
        FROM jsonb_to_record(p_room) AS r (free_cpu bigint, free_memory bigint)
        CROSS JOIN jsonb_to_record(p_carried) AS c (
                 permits bigint, cpu bigint, memory bigint, unseen_cpu bigint, unseen_memory bigint)
        CROSS JOIN jsonb_to_record(p_weight) AS w (cpu bigint, memory bigint));
END $$;

-- holder_waits: whether the holder of a reservation has not begun yet: a job that is ready with this token,
-- or, where the token is -1, the session of a caller without a permit.
CREATE OR REPLACE FUNCTION limpet.v1_holder_waits(p_holder text, p_token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_token = -1 THEN
        RETURN EXISTS (SELECT FROM limpet.session s WHERE s.id = p_holder AND s.state <> 'dead')
           AND NOT EXISTS (SELECT FROM limpet.permit p WHERE p.holder = p_holder);
    END IF;
    RETURN EXISTS (SELECT FROM limpet.ready r WHERE r.id = p_holder AND r.token = p_token);
END $$;

-- reserved: the job, or the session of the caller, for which a host is reserved; NULL for none. A reservation
-- that was confirmed too long ago has ended; one that was confirmed far in the future was written before the
-- clock was set back, and has ended too.
CREATE OR REPLACE FUNCTION limpet.v1_reserved(p_room jsonb, p_now bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT v.job FROM limpet.reservation v
        WHERE v.server = p_room ->> 'server' AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint
          AND limpet.v1_holder_waits(v.job, v.token));
END $$;

-- reserve: reserve a host for a job or a caller, or confirm the reservation; whether the host is reserved. Two
-- hosts that meet the job at the same moment would both see that no other host is reserved for it; the lock
-- lets only one of them look.
CREATE OR REPLACE FUNCTION limpet.v1_reserve(
    p_room jsonb, p_job text, p_token bigint, p_now bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('limpet.reservation ' || p_job, 0)) THEN
        RETURN false;
    END IF;
    IF EXISTS (
        SELECT FROM limpet.reservation v
        WHERE v.job = p_job AND v.token = p_token AND v.server <> p_room ->> 'server'
          AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint) THEN
        RETURN false;
    END IF;
    INSERT INTO limpet.reservation (server, job, token, at)
    VALUES (p_room ->> 'server', p_job, p_token, p_now)
    ON CONFLICT (server) DO UPDATE
    SET job = excluded.job, token = excluded.token, at = excluded.at;
    RETURN true;
END $$;

-- pick_for_gate: as pick_jobs and pick_by_weight (22_claim.sql, 24_limits.sql), but a job that does not fit on
-- the host is passed over, and with it the rest of its line. Then the remaining lines are put in order again:
-- jobs of a queue with a weight move up.
CREATE OR REPLACE FUNCTION limpet.v1_pick_for_gate(
    p_queues text[], p_tasks text[], p_doubts boolean[], p_limits integer[], p_floors bigint[],
    p_places integer, p_suspects integer, p_missed text[], p_bounds jsonb, p_used jsonb, p_gate jsonb,
    p_now bigint, OUT picked text[], OUT passed_over integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_host jsonb := p_gate -> 'room';
    v_carried jsonb := limpet.v1_carried(v_host, p_now);
    v_reserved text := limpet.v1_reserved(v_host, p_now);
    v_waiting_since bigint := p_now - (p_gate ->> 'reserve_after_us')::bigint;
    v_by_weight boolean := p_bounds @? '$.*.weight';
    v_left jsonb;
    v_weight jsonb;
    v_job record;
    v_refused boolean := true;
BEGIN
    picked := '{}';
    passed_over := 0;
    SELECT jsonb_object_agg(queue, most) INTO v_left FROM (
        SELECT l.queue, max(l.most) AS most
        FROM unnest(p_queues, p_limits) AS l (queue, most) GROUP BY l.queue) found;
    WHILE v_refused LOOP
        v_refused := false;
        FOR v_job IN
            SELECT f.*, CASE WHEN v_by_weight THEN
                       coalesce((p_bounds -> f.queue ->> 'tag')::double precision, 0)
                       + (coalesce((p_used ->> f.queue)::integer, 0) + f.place - 1)::double precision
                       / coalesce((p_bounds -> f.queue ->> 'weight')::integer, 1) END AS tag
            FROM (SELECT c.*, l.task, l.line,
                         row_number() OVER (PARTITION BY c.queue ORDER BY c.sort_key, c.n) AS place
                  FROM unnest(p_queues, p_tasks, p_doubts, p_limits, p_floors)
                       WITH ORDINALITY AS l (queue, task, suspect, most, from_key, line)
                  CROSS JOIN LATERAL (
                      SELECT r.id, r.queue, r.suspect, r.sort_key, r.n, r.ready_at, r.token
                      FROM limpet.ready r
                      WHERE r.queue = l.queue AND r.task = l.task AND r.suspect = l.suspect
                        AND r.sort_key >= l.from_key AND r.id <> ALL (p_missed)
                        AND (LEAST(r.expires_at, r.deadline_at) > p_now
                             OR LEAST(r.expires_at, r.deadline_at) IS NULL)
                      ORDER BY r.sort_key, r.n
                      LIMIT l.most) c) f
            ORDER BY tag, f.sort_key, f.n
        LOOP
            EXIT WHEN cardinality(picked) = p_places;
            CONTINUE WHEN (v_left ->> v_job.queue)::integer = 0
                       OR (v_job.suspect AND p_suspects = 0);
            v_weight := p_gate -> 'weights' -> v_job.task;
            IF v_weight IS NOT NULL THEN
                IF (v_reserved IS NULL OR v_reserved = v_job.id)
                   AND limpet.v1_fits(v_host, v_carried, v_weight) THEN
                    v_carried := limpet.v1_plus(v_carried, v_weight);
                    v_reserved := NULL;
                ELSE
                    passed_over := greatest(
                        passed_over, CASE WHEN limpet.v1_carries(v_host, v_weight) THEN 2 ELSE 1 END);
                    IF NOT limpet.v1_helped(v_host, v_carried, v_weight) THEN
                        NULL;
                    ELSIF v_reserved = v_job.id THEN
                        PERFORM limpet.v1_reserve(v_host, v_job.id, v_job.token, p_now);
                    ELSIF v_reserved IS NULL AND v_job.ready_at <= v_waiting_since
                          AND limpet.v1_reserve(v_host, v_job.id, v_job.token, p_now) THEN
                        v_reserved := v_job.id;
                    END IF;
                    p_limits[v_job.line] := 0;
                    v_refused := true;
                    EXIT;
                END IF;
            END IF;
            v_left := jsonb_set(
                v_left, ARRAY[v_job.queue], to_jsonb((v_left ->> v_job.queue)::integer - 1));
            p_suspects := p_suspects - v_job.suspect::integer;
            p_limits[v_job.line] := p_limits[v_job.line] - 1;
            p_used := limpet.v1_added(p_used, jsonb_build_object(v_job.queue, 1));
            p_missed := p_missed || v_job.id::text;
            picked := picked || v_job.id::text;
        END LOOP;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_permit(p_jobs text[], p_gate jsonb, p_now bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO limpet.permit (holder, server, session, what, cpu, memory, heavy, at)
    SELECT r.id, p_gate -> 'room' ->> 'server', r.session, r.task, (w.value ->> 'cpu')::bigint,
           (w.value ->> 'memory')::bigint, (w.value ->> 'heavy')::boolean, p_now
    FROM limpet.running r CROSS JOIN LATERAL (SELECT p_gate -> 'weights' -> r.task AS value) w
    WHERE r.id = ANY (p_jobs) AND w.value IS NOT NULL
    ORDER BY r.place;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_give_back(p_session text, p_jobs text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM limpet.permit p WHERE p.holder = ANY (p_jobs) AND p.session = p_session;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_take_permit(
    p_session text, p_weight jsonb, p_room jsonb, p_wall bigint, p_lease bigint,
    OUT standing text, OUT given boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint;
    v_carried jsonb;
    v_reserved text;
BEGIN
    PERFORM limpet.v1_pass(false);
    PERFORM pg_advisory_xact_lock(hashtextextended('limpet.gate ' || (p_room ->> 'server'), 0));
    v_now := limpet.v1_time(p_wall); -- read only now, because the lock may have been waited for
    standing := limpet.v1_standing(p_session, p_lease);
    given := standing = 'live' AND EXISTS (
        SELECT FROM limpet.permit p WHERE p.holder = p_session);
    IF standing IS DISTINCT FROM 'live' OR given THEN
        RETURN;
    END IF;
    v_carried := limpet.v1_carried(p_room, v_now);
    v_reserved := limpet.v1_reserved(p_room, v_now);
    IF (v_reserved IS NULL OR v_reserved = p_session)
       AND limpet.v1_fits(p_room, v_carried, p_weight) THEN
        INSERT INTO limpet.permit (holder, server, session, what, cpu, memory, heavy, at)
        SELECT s.id, p_room ->> 'server', s.id, s.name, (p_weight ->> 'cpu')::bigint,
               (p_weight ->> 'memory')::bigint, (p_weight ->> 'heavy')::boolean, v_now
        FROM limpet.session s WHERE s.id = p_session
        ON CONFLICT (holder) DO NOTHING; -- the caller has a permit of another host
        given := true;
    ELSIF limpet.v1_helped(p_room, v_carried, p_weight)
          AND (v_reserved = p_session OR (v_reserved IS NULL AND EXISTS (
              SELECT FROM limpet.session s WHERE s.id = p_session
              AND s.registered_at <= v_now - (p_room ->> 'reserve_after_us')::bigint))) THEN
        PERFORM limpet.v1_reserve(p_room, p_session, -1, v_now);
    END IF;
END $$;
