-- gate: what may begin on a host beside what it carries already (see storage/gating.py).
-- purpose: enter: ask for the gate of a host. pick_admitted: which jobs a claim takes where some of them
--          have a weight. carries: whether a host could with nothing else there. permit: write the permits of those that were taken. take_permit: one for a caller
--          outside. give_back: take away those of jobs that have left running.
-- params:  the room of a host as JSON (domain.permit.Room, how long a reservation lasts, and the patience of
--          a caller), or the gate, which is that with what tasks weigh and the patience of jobs; what a
--          job weighs (cpu in thousandths of a core, memory, heavy); the wall time.
-- returns: enter: whether nobody else has it; then this transaction has it. pick_admitted: the jobs, and what
--          was left for the gate, as domain.permit.PassedOver.
--          take_permit: the standing (NULL for no such session), and whether it has a permit.
-- why:     two that each read the sums before the other has written would both see the same room. So who
--          reads them has the gate of that host for itself, and reads in a statement after that. A claim
--          has settled before, and has keys and queues locked: it waits for nobody, passes over what
--          has a weight and asks again. A caller has nothing locked, and waits. Permits are taken
--          away without the gate: who does not see that yet admits too little, and is rung for.

CREATE OR REPLACE FUNCTION limpet.v1_enter(p_server text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('limpet.gate ' || p_server, 0))
$$;

-- carried: what the permits of a host take together, as domain.permit.Taken.
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

-- plus: the same with one more permit.
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

-- fits: whether one more may begin, as domain.permit.fits has it.
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

-- helped: whether what does not fit might once the permits of others are gone, as
-- domain.permit.helped_by_an_end has it.
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

-- holder_waits: whether who has a host reserved has not begun: a job that is ready with this token, or, if
-- that is -1, the session of a caller that has no permit.
CREATE OR REPLACE FUNCTION limpet.v1_holder_waits(p_holder text, p_token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_token = -1 THEN
        RETURN EXISTS (SELECT FROM limpet.session s WHERE s.id = p_holder AND s.state <> 'dead')
           AND NOT EXISTS (SELECT FROM limpet.permit p WHERE p.holder = p_holder);
    END IF;
    RETURN EXISTS (SELECT FROM limpet.ready r WHERE r.id = p_holder AND r.token = p_token);
END $$;

-- reserved: the job, or the session of the caller, for which a host is reserved. What was confirmed long before
-- now holds no more, and what was long after is of before the clock was set back.
CREATE OR REPLACE FUNCTION limpet.v1_reserved(p_room jsonb, p_now bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT v.job FROM limpet.reservation v
        WHERE v.server = p_room ->> 'server' AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint
          AND limpet.v1_holder_waits(v.job, v.token));
END $$;

-- reserve: reserve a host for a job or a caller, or confirm that; whether it is. Two hosts that meet the job in the same
-- moment would both see that no other is reserved for it, so one has the job for itself.
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

-- As pick and weigh (22_claim.sql, 24_limits.sql), but that what its host cannot carry is passed over, and
-- with it the rest of its line. The others are then put in order again without them: those of a queue
-- that has a weight move up.
CREATE OR REPLACE FUNCTION limpet.v1_pick_admitted(
    p_queues text[], p_tasks text[], p_doubts boolean[], p_limits integer[], p_floors bigint[],
    p_room integer, p_suspects integer, p_missed text[], p_rooms jsonb, p_used jsonb, p_gate jsonb,
    p_now bigint, OUT picked text[], OUT passed_over integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_host jsonb := p_gate -> 'room';
    v_carried jsonb := limpet.v1_carried(v_host, p_now);
    v_reserved text := limpet.v1_reserved(v_host, p_now);
    v_patient bigint := p_now - (p_gate ->> 'patience')::bigint;
    v_by_weight boolean := p_rooms @? '$.*.weight';
    v_left jsonb;
    v_weight jsonb;
    v_each record;
    v_refused boolean := true;
BEGIN
    picked := '{}';
    passed_over := 0;
    SELECT jsonb_object_agg(queue, most) INTO v_left FROM (
        SELECT l.queue, max(l.most) AS most
        FROM unnest(p_queues, p_limits) AS l (queue, most) GROUP BY l.queue) found;
    WHILE v_refused LOOP
        v_refused := false;
        FOR v_each IN
            SELECT f.*, CASE WHEN v_by_weight THEN
                       coalesce((p_rooms -> f.queue ->> 'tag')::double precision, 0)
                       + (coalesce((p_used ->> f.queue)::integer, 0) + f.place - 1)::double precision
                       / coalesce((p_rooms -> f.queue ->> 'weight')::integer, 1) END AS tag
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
            EXIT WHEN cardinality(picked) = p_room;
            CONTINUE WHEN (v_left ->> v_each.queue)::integer = 0
                       OR (v_each.suspect AND p_suspects = 0);
            v_weight := p_gate -> 'weights' -> v_each.task;
            IF v_weight IS NOT NULL THEN
                IF (v_reserved IS NULL OR v_reserved = v_each.id)
                   AND limpet.v1_fits(v_host, v_carried, v_weight) THEN
                    v_carried := limpet.v1_plus(v_carried, v_weight);
                    v_reserved := NULL;
                ELSE
                    passed_over := greatest(
                        passed_over, CASE WHEN limpet.v1_carries(v_host, v_weight) THEN 2 ELSE 1 END);
                    IF NOT limpet.v1_helped(v_host, v_carried, v_weight) THEN
                        NULL;
                    ELSIF v_reserved = v_each.id THEN
                        PERFORM limpet.v1_reserve(v_host, v_each.id, v_each.token, p_now);
                    ELSIF v_reserved IS NULL AND v_each.ready_at <= v_patient
                          AND limpet.v1_reserve(v_host, v_each.id, v_each.token, p_now) THEN
                        v_reserved := v_each.id;
                    END IF;
                    p_limits[v_each.line] := 0;
                    v_refused := true;
                    EXIT;
                END IF;
            END IF;
            v_left := jsonb_set(
                v_left, ARRAY[v_each.queue], to_jsonb((v_left ->> v_each.queue)::integer - 1));
            p_suspects := p_suspects - v_each.suspect::integer;
            p_limits[v_each.line] := p_limits[v_each.line] - 1;
            p_used := limpet.v1_added(p_used, jsonb_build_object(v_each.queue, 1));
            p_missed := p_missed || v_each.id::text;
            picked := picked || v_each.id::text;
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
    v_now := limpet.v1_time(p_wall); -- not before: somebody may have been waited for
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
        ON CONFLICT (holder) DO NOTHING; -- it asked at another host too
        given := true;
    ELSIF limpet.v1_helped(p_room, v_carried, p_weight)
          AND (v_reserved = p_session OR (v_reserved IS NULL AND EXISTS (
              SELECT FROM limpet.session s WHERE s.id = p_session
              AND s.registered_at <= v_now - (p_room ->> 'patience')::bigint))) THEN
        PERFORM limpet.v1_reserve(p_room, p_session, -1, v_now);
    END IF;
END $$;
