-- claim: take ready jobs for a session.
-- purpose: ready to running, with the next token, as far as there is room; jobs whose task nobody
--          knows to blocked.
-- params:  the session and its exchange; the pools as JSON (see base.Want), or an object of these and the
--          gate (see 25_gate.sql); the wall time; what tokens go on above (see server); the lines
--          that the last claim remembered, and until when they are good.
-- returns: the jobs in order, and the sum of their marks; lines to remember; when more may be had of what a
--          rate, a hold, a breaker or somebody else at the gate kept back; what was left for the gate.
-- why:     a pool that finds one line takes from it in one step. With several the first of all
--          together are chosen before any is locked, so that nobody is kept from what is not taken;
--          what others were faster to lock is left out of the next choice.
--          While somebody's old transaction keeps rows that are gone from being cleaned away, the
--          beginning of a line is nothing but such rows, more with every claim. A claim that had
--          to step over thousands remembers where it got to, and the next begin there, until ten
--          times as long has passed as it took. What comes in before that place waits meanwhile.

CREATE OR REPLACE FUNCTION limpet.v1_claim(
    p_session text, p_seq bigint, p_want jsonb, p_now bigint, p_base bigint, p_lines jsonb,
    p_until bigint, OUT jobs text[], OUT marks bigint, OUT lines jsonb, OUT until bigint,
    OUT next_at bigint, OUT passed_over integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_pool jsonb;
    v_line record;
    v_slots jsonb;
    v_used jsonb := '{}';            -- queue to how many this claim has taken from it
    v_here jsonb;                    -- the same, of this pool
    v_room integer;
    v_suspects integer;
    v_limit integer;
    v_queues text[];
    v_tasks text[];
    v_doubts boolean[];
    v_limits integer[];
    v_plain boolean;
    v_picked text[];
    v_missed text[];                 -- what others are just taking
    v_rows tid[];
    v_taken record;
    v_tries integer;
    v_floors bigint[];
    v_seen jsonb := '[]';            -- every line, and from where on it was read
    v_real bigint := limpet.v1_time(NULL);
    v_read bigint := pg_stat_get_xact_tuples_returned('limpet.ready_line'::regclass);
    v_rooms jsonb;                   -- queue to what bounds it, see rooms; NULL where nothing does
    v_open jsonb;                    -- task to the breaker that holds it back, see open_breakers
    v_tried text[] := '{}';          -- breakers for which a job is tried
    v_breaker jsonb;
    v_kept jsonb := '[]';            -- the lines that breakers hold back
    v_blocked record;
    v_keys text[];                   -- turns that are given back, after all that is taken
    v_back integer[];
    v_gate jsonb;
    v_entered boolean;               -- the gate of the host is this claim's own; NULL: not asked for
    v_gated boolean;                 -- some lines of this try have a weight
    v_passed integer;
BEGIN
    jobs := '{}';
    marks := 0;
    passed_over := 0;
    IF jsonb_typeof(p_want) = 'object' THEN
        v_gate := p_want -> 'gate';
        p_want := p_want -> 'pools';
    END IF;
    IF EXISTS (SELECT FROM limpet.breaker b WHERE b.state <> 'closed') THEN
        v_open := limpet.v1_open_breakers(p_want, p_now);
    END IF;
    IF EXISTS (SELECT FROM limpet.queue q
               WHERE q.concurrency IS NOT NULL OR q.step IS NOT NULL OR q.weight IS NOT NULL
                  OR q.held_until > 0) THEN
        v_rooms := limpet.v1_rooms(p_want, p_now);
    END IF;
    IF p_until > v_real AND p_until <= v_real + 10000000 THEN
        lines := p_lines;
        until := p_until;
    END IF;
    FOR v_pool IN SELECT value FROM jsonb_array_elements(p_want) LOOP
        v_room := least((v_pool ->> 'total')::integer, 1000);
        v_suspects := (v_pool ->> 'suspects')::integer;
        v_slots := v_pool -> 'slots';
        v_here := '{}';
        v_missed := '{}';
        v_tries := 0;
        WHILE v_room > 0 AND v_tries < 8 LOOP
            v_tries := v_tries + 1;
            v_queues := '{}'; v_tasks := '{}'; v_doubts := '{}'; v_limits := '{}'; v_floors := '{}';
            v_plain := true; v_gated := false;
            FOR v_line IN
                SELECT l.queue, l.task, l.suspect, l.from_key, t.task IS NOT NULL AS mine
                FROM limpet.v1_lines(lines) l
                LEFT JOIN limpet.taskset t ON t.digest = v_pool ->> 'tasks' AND t.task = l.task
            LOOP
                -- Also those for which there is no room just now; there may be for the next claim.
                v_seen := v_seen || jsonb_build_array(jsonb_build_array(
                    v_line.queue, v_line.task, v_line.suspect, v_line.from_key));
                -- Pools share the slots of a queue that is named, because its limit is the worker's.
                v_limit := least(v_room, CASE
                    WHEN v_slots ? v_line.queue THEN (v_slots ->> v_line.queue)::integer
                        - coalesce((v_used ->> v_line.queue)::integer, 0)
                    ELSE coalesce((v_slots ->> '*')::integer, 0)
                        - coalesce((v_here ->> v_line.queue)::integer, 0) END);
                CONTINUE WHEN v_limit <= 0;
                IF v_rooms IS NOT NULL AND NOT v_rooms ? v_line.queue AND EXISTS (
                    SELECT FROM limpet.queue q WHERE q.name = v_line.queue
                      AND (q.concurrency IS NOT NULL OR q.step IS NOT NULL OR q.held_until > p_now)) THEN
                    -- Its first job was committed after this claim had looked what bounds it: the queue is not
                    -- locked, and its limit not known. The next claim knows it.
                    next_at := p_now;
                    CONTINUE;
                END IF;
                IF v_rooms -> v_line.queue ->> 'left' IS NOT NULL THEN
                    v_limit := least(v_limit, (v_rooms -> v_line.queue ->> 'left')::integer
                        - coalesce((v_used ->> v_line.queue)::integer, 0));
                    CONTINUE WHEN v_limit <= 0;
                END IF;
                IF NOT v_line.mine THEN
                    IF NOT EXISTS (
                        SELECT 1 FROM limpet.session s
                        JOIN limpet.taskset t ON t.digest = s.tasks AND t.task = v_line.task
                        WHERE s.state <> 'dead') THEN
                        SELECT b.keys, b.back INTO v_blocked
                        FROM limpet.v1_block(v_line.queue, v_line.task, p_now) b;
                        v_keys := v_keys || v_blocked.keys;
                        v_back := v_back || v_blocked.back;
                    END IF;
                    CONTINUE;
                END IF;
                v_breaker := v_open -> v_line.task;
                IF v_breaker IS NOT NULL THEN
                    v_kept := v_kept || jsonb_build_array(v_breaker || jsonb_build_object(
                        'queue', v_line.queue, 'task', v_line.task));
                    CONTINUE WHEN NOT (v_breaker ->> 'due')::boolean
                               OR v_breaker ->> 'name' = ANY (v_tried);
                    v_limit := 1;
                END IF;
                v_plain := v_plain AND NOT v_line.suspect AND v_limit = v_room AND v_rooms IS NULL;
                IF v_line.suspect THEN
                    v_limit := least(v_limit, v_suspects);
                    CONTINUE WHEN v_limit <= 0;
                END IF;
                IF v_gate -> 'weights' ? v_line.task THEN
                    v_entered := coalesce(
                        v_entered, limpet.v1_enter(v_gate -> 'room' ->> 'server'));
                    CONTINUE WHEN NOT v_entered;
                    v_gated := true;
                END IF;
                v_tried := v_tried || (v_breaker ->> 'name');
                v_queues := v_queues || v_line.queue;
                v_tasks := v_tasks || v_line.task;
                v_doubts := v_doubts || v_line.suspect;
                v_limits := v_limits || v_limit;
                v_floors := v_floors || v_line.from_key;
            END LOOP;

            EXIT WHEN cardinality(v_queues) = 0;

            IF cardinality(v_queues) = 1 AND NOT v_gated THEN
                v_rows := ARRAY(
                    SELECT ctid FROM limpet.ready
                    WHERE queue = v_queues[1] AND task = v_tasks[1] AND suspect = v_doubts[1]
                      AND sort_key >= v_floors[1]
                      AND (LEAST(expires_at, deadline_at) > p_now
                           OR LEAST(expires_at, deadline_at) IS NULL)
                    ORDER BY sort_key, n
                    LIMIT v_limits[1]
                    FOR UPDATE SKIP LOCKED);
                v_tries := 8;        -- what others hold was stepped over
            ELSE
                IF v_gated THEN
                    SELECT p.picked, p.passed_over INTO v_picked, v_passed
                    FROM limpet.v1_pick_admitted(
                        v_queues, v_tasks, v_doubts, v_limits, v_floors, v_room, v_suspects,
                        v_missed, v_rooms, v_used, v_gate, p_now) p;
                    passed_over := greatest(passed_over, v_passed);
                ELSE
                    v_picked := limpet.v1_pick(
                        v_queues, v_tasks, v_doubts, v_limits, v_floors, v_room, v_suspects, v_plain,
                        v_missed, v_rooms, v_used, p_now);
                END IF;
                SELECT coalesce(array_agg(l.ctid), '{}'), v_missed || ARRAY(
                    SELECT unnest(v_picked) EXCEPT SELECT unnest(array_agg(l.id)))
                INTO v_rows, v_missed
                FROM (SELECT ctid, id FROM limpet.ready WHERE id = ANY (v_picked)
                      FOR UPDATE SKIP LOCKED) l;
                IF cardinality(v_rows) = cardinality(v_picked) THEN
                    v_tries := 8;    -- nobody was faster
                END IF;
            END IF;
            CONTINUE WHEN cardinality(v_rows) = 0;

            WITH gone AS (
                DELETE FROM limpet.ready WHERE ctid = ANY (v_rows) RETURNING *
            ), held AS (
                INSERT INTO limpet.running
                SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round,
                       greatest(token, p_base) + 1,
                       failures, orphans, strikes, suspect, last_run, expires_at, deadline_at,
                       p_session, p_now, false, NULL, p_seq,
                       cardinality(jobs) + row_number() OVER (ORDER BY sort_key, n),
                       tail + (greatest(token, p_base) + 1) % 1048576 * 2654435761, shaped,
                       (v_rooms -> queue ->> 'concurrency') IS NOT NULL
                       OR coalesce(v_gate -> 'weights' ? task, false)
                FROM gone
                RETURNING id, queue, suspect, place, mark
            ), queues AS (
                SELECT queue, count(*) AS number FROM held GROUP BY queue
            ), told AS (
                INSERT INTO limpet.tally
                SELECT queue, 'claim', 'ready', 'running', number FROM queues
            )
            SELECT array_agg(id ORDER BY place) AS ids, sum(mark) AS marks, count(*) AS number,
                   count(*) FILTER (WHERE suspect) AS suspects,
                   (SELECT jsonb_object_agg(queue, number) FROM queues) AS queues
            INTO v_taken FROM held;
            IF v_gated THEN
                PERFORM limpet.v1_permit(v_taken.ids, v_gate, p_now);
            END IF;
            jobs := jobs || v_taken.ids;
            marks := marks + v_taken.marks;
            v_room := v_room - v_taken.number;
            v_suspects := v_suspects - v_taken.suspects;
            v_used := limpet.v1_added(v_used, v_taken.queues);
            v_here := limpet.v1_added(v_here, v_taken.queues);
        END LOOP;
    END LOOP;
    IF v_keys IS NOT NULL THEN
        SELECT array_agg(k.name), array_agg(k.back) INTO v_keys, v_back
        FROM (SELECT g.name, sum(g.back)::integer AS back
              FROM unnest(v_keys, v_back) AS g (name, back) GROUP BY g.name) k;
        PERFORM limpet.v1_turns(v_keys, v_back, p_now);
    END IF;
    IF NOT v_entered THEN
        next_at := least(next_at, p_now + 5000);     -- whoever is at the gate is about to commit
        passed_over := 2;            -- nobody has looked at what is in line there, so it may fit
    END IF;
    IF v_rooms IS NOT NULL THEN
        next_at := least(next_at, limpet.v1_served(v_rooms, v_used, p_now));
    END IF;
    IF v_open IS NOT NULL THEN
        PERFORM limpet.v1_probe(jobs, p_now);
        next_at := least(next_at, (
            SELECT min((k.value ->> 'next_at')::bigint) FROM jsonb_array_elements(v_kept) k
            WHERE EXISTS (
                SELECT FROM limpet.ready r
                WHERE r.queue = k.value ->> 'queue' AND r.task = k.value ->> 'task')));
    END IF;
    v_read := pg_stat_get_xact_tuples_returned('limpet.ready_line'::regclass) - v_read;
    IF lines IS NOT NULL OR v_read > 4000 THEN
        until := coalesce(until, limpet.v1_time(NULL) + least(
            greatest(10 * (limpet.v1_time(NULL) - v_real), 100000), 5000000));
        SELECT jsonb_agg(jsonb_build_array(s.queue, s.task, s.suspect, greatest(s.from_key, m.last)))
        INTO lines
        FROM (SELECT e.value ->> 0 AS queue, e.value ->> 1 AS task,
                     (e.value ->> 2)::boolean AS suspect, max((e.value ->> 3)::bigint) AS from_key
              FROM jsonb_array_elements(v_seen) e GROUP BY 1, 2, 3) s
        LEFT JOIN (SELECT r.queue, r.task, r.suspect, max(r.sort_key) AS last
                   FROM limpet.running r WHERE r.id = ANY (jobs) GROUP BY 1, 2, 3) m
        ON (m.queue, m.task, m.suspect) = (s.queue, s.task, s.suspect);
    END IF;
END $$;

-- lines: which queues, tasks and kinds have ready jobs, each found by one step in the index, or as
-- they are remembered, and from where on; without the queues that are paused.
CREATE OR REPLACE FUNCTION limpet.v1_lines(p_lines jsonb)
RETURNS TABLE (queue text, task text, suspect boolean, from_key bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_lines IS NOT NULL THEN
        RETURN QUERY
            SELECT e.value ->> 0, e.value ->> 1, (e.value ->> 2)::boolean,
                   (e.value ->> 3)::bigint
            FROM jsonb_array_elements(p_lines) e
            WHERE NOT EXISTS (
                SELECT 1 FROM limpet.queue q WHERE q.name = e.value ->> 0 AND q.paused);
        RETURN;
    END IF;
    RETURN QUERY WITH RECURSIVE line AS (
        (SELECT r.queue, r.task, r.suspect FROM limpet.ready r
         ORDER BY r.queue, r.task, r.suspect LIMIT 1)
        UNION ALL
        SELECT more.queue, more.task, more.suspect FROM line l CROSS JOIN LATERAL (
            SELECT r.queue, r.task, r.suspect FROM limpet.ready r
            WHERE (r.queue, r.task, r.suspect) > (l.queue, l.task, l.suspect)
            ORDER BY r.queue, r.task, r.suspect LIMIT 1) more)
    SELECT l.queue, l.task, l.suspect, (-9223372036854775808)::bigint FROM line l
    WHERE NOT EXISTS (SELECT 1 FROM limpet.queue q WHERE q.name = l.queue AND q.paused);
END $$;

-- pick: the first jobs of all lines together; no more of a queue than its limit, and no more
-- suspects than can run alone. `p_plain`: no limit but the room counts. None that was missed. Where queues
-- have weights, each gets its share (see rooms).
CREATE OR REPLACE FUNCTION limpet.v1_pick(
    p_queues text[], p_tasks text[], p_doubts boolean[], p_limits integer[], p_floors bigint[],
    p_room integer, p_suspects integer, p_plain boolean,
    p_missed text[], p_rooms jsonb, p_used jsonb, p_now bigint)
RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_picked text[] := '{}';
    v_left jsonb := '{}';
    v_each record;
BEGIN
    IF NOT p_plain THEN
        -- The limit of a queue is that of its line without suspects, or else of the other.
        SELECT jsonb_object_agg(queue, most) INTO v_left FROM (
            SELECT l.queue, max(l.most) AS most
            FROM unnest(p_queues, p_limits) AS l (queue, most) GROUP BY l.queue) found;
    END IF;
    IF p_rooms @? '$.*.weight' THEN
        RETURN limpet.v1_weigh(
            p_queues, p_tasks, p_doubts, p_limits, p_floors, p_room, p_suspects, p_missed, v_left,
            p_rooms, p_used, p_now);
    END IF;
    FOR v_each IN
        SELECT c.id, c.queue, c.suspect
        FROM unnest(p_queues, p_tasks, p_doubts, p_limits, p_floors)
             AS l (queue, task, suspect, most, from_key)
        CROSS JOIN LATERAL (
            SELECT r.id, r.queue, r.suspect, r.sort_key, r.n FROM limpet.ready r
            WHERE r.queue = l.queue AND r.task = l.task AND r.suspect = l.suspect
              AND r.sort_key >= l.from_key AND r.id <> ALL (p_missed)
              AND (LEAST(r.expires_at, r.deadline_at) > p_now
                   OR LEAST(r.expires_at, r.deadline_at) IS NULL)
            ORDER BY r.sort_key, r.n
            LIMIT l.most) c
        ORDER BY c.sort_key, c.n
    LOOP
        EXIT WHEN cardinality(v_picked) = p_room;
        IF NOT p_plain THEN
            CONTINUE WHEN (v_left ->> v_each.queue)::integer = 0
                       OR (v_each.suspect AND p_suspects = 0);
            v_left := jsonb_set(
                v_left, ARRAY[v_each.queue], to_jsonb((v_left ->> v_each.queue)::integer - 1));
            p_suspects := p_suspects - v_each.suspect::integer;
        END IF;
        v_picked := v_picked || v_each.id;
    END LOOP;
    RETURN v_picked;
END $$;

-- added: two counts by name as one.
CREATE OR REPLACE FUNCTION limpet.v1_added(p_one jsonb, p_other jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_one = '{}' THEN
        RETURN p_other;              -- as for every pool that takes once
    END IF;
    RETURN p_one || (
        SELECT jsonb_object_agg(key, coalesce((p_one ->> key)::integer, 0) + value::integer)
        FROM jsonb_each_text(p_other));
END $$;
