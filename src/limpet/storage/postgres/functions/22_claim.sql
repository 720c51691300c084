-- claim: take ready jobs for a session.
-- purpose: ready to running, with the next token, as long as there are places and permits; jobs whose task
--          no session knows to blocked.
-- params:  p_session, p_seq: the session, and the number of its exchange.
--          p_want: the pools as JSON (see contract/store.py, Want), or an object of the pools and the gate
--          (see 25_gate.sql).
--          p_now: the wall time.
--          p_base: new tokens are above this number (see server).
--          p_lines, p_until: the lines that the last claim remembered, and until when they are good.
-- returns: jobs: the ids, in order.
--          marks: the sum of their marks.
--          lines, until: lines to remember, and until when they are good.
--          next_at: when to come back for jobs that a rate, a hold, a breaker or another transaction at the
--          gate kept back.
--          passed_over: what was left for the gate, as domain.permit.PassedOver.
-- why:     a pool that finds one line takes from it in one step. With several lines the first jobs of all
--          of them are chosen before any is locked, so that no other claim is kept from jobs that are not
--          taken here; jobs that others were faster to lock are left out of the next choice.
--          While an old transaction keeps dead rows from being cleaned away, the beginning of a line is
--          nothing but dead rows, more with every claim. A claim that had to step over thousands remembers
--          where it got to. The next claims begin there, until ten times as long has passed as that claim
--          took. Jobs that come in before that place wait meanwhile.

CREATE OR REPLACE FUNCTION limpet.v1_claim(
    p_session text, p_seq bigint, p_want jsonb, p_now bigint, p_base bigint, p_lines jsonb,
    p_until bigint, OUT jobs text[], OUT marks bigint, OUT lines jsonb, OUT until bigint,
    OUT next_at bigint, OUT passed_over integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_pool jsonb;
    v_line record;
    v_slots jsonb;
    v_used jsonb := '{}';            -- queue to how many jobs this claim has taken from it
    v_here jsonb;                    -- the same for this pool
    v_places integer;
    v_suspects integer;
    v_limit integer;
    v_queues text[];
    v_tasks text[];
    v_doubts boolean[];
    v_limits integer[];
    v_plain boolean;
    v_picked text[];
    v_missed text[];                 -- jobs that other claims are just taking
    v_rows tid[];
    v_taken record;
    v_tries integer;
    v_floors bigint[];
    v_seen jsonb := '[]';            -- every line, and the sort key from which it was read
    v_real bigint := limpet.v1_time(NULL);
    v_read bigint := pg_stat_get_xact_tuples_returned('limpet.ready_line'::regclass);
    v_bounds jsonb;                  -- queue to its bounds, see queue_bounds; NULL where there are none
    v_open jsonb;                    -- task to the breaker that holds it back, see open_breakers
    v_tried text[] := '{}';          -- breakers for which a job is tried
    v_breaker jsonb;
    v_kept jsonb := '[]';            -- the lines that breakers hold back
    v_blocked record;
    v_keys text[];                   -- turns to give back, once all jobs are taken
    v_back integer[];
    v_gate jsonb;
    v_entered boolean;               -- whether this claim has locked the gate of the host; NULL: not tried
    v_gated boolean;                 -- whether tasks of this try have a weight
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
        v_bounds := limpet.v1_queue_bounds(p_want, p_now);
    END IF;
    IF p_until > v_real AND p_until <= v_real + 10000000 THEN
        lines := p_lines;
        until := p_until;
    END IF;
    FOR v_pool IN SELECT value FROM jsonb_array_elements(p_want) LOOP
        v_places := least((v_pool ->> 'total')::integer, 1000);
        v_suspects := (v_pool ->> 'suspects')::integer;
        v_slots := v_pool -> 'slots';
        v_here := '{}';
        v_missed := '{}';
        v_tries := 0;
        WHILE v_places > 0 AND v_tries < 8 LOOP
            v_tries := v_tries + 1;
            v_queues := '{}'; v_tasks := '{}'; v_doubts := '{}'; v_limits := '{}'; v_floors := '{}';
            v_plain := true; v_gated := false;
            FOR v_line IN
                SELECT l.queue, l.task, l.suspect, l.from_key, t.task IS NOT NULL AS mine
                FROM limpet.v1_lines(lines) l
                LEFT JOIN limpet.taskset t ON t.digest = v_pool ->> 'tasks' AND t.task = l.task
            LOOP
                -- Also lines without a free place: the next claim may have one.
                v_seen := v_seen || jsonb_build_array(jsonb_build_array(
                    v_line.queue, v_line.task, v_line.suspect, v_line.from_key));
                -- Pools share the slots of a named queue, because its limit is that of the worker.
                v_limit := least(v_places, CASE
                    WHEN v_slots ? v_line.queue THEN (v_slots ->> v_line.queue)::integer
                        - coalesce((v_used ->> v_line.queue)::integer, 0)
                    ELSE coalesce((v_slots ->> '*')::integer, 0)
                        - coalesce((v_here ->> v_line.queue)::integer, 0) END);
                CONTINUE WHEN v_limit <= 0;
                IF v_bounds IS NOT NULL AND NOT v_bounds ? v_line.queue AND EXISTS (
                    SELECT FROM limpet.queue q WHERE q.name = v_line.queue
                      AND (q.concurrency IS NOT NULL OR q.step IS NOT NULL OR q.held_until > p_now)) THEN
                    -- The first job of this queue was committed after queue_bounds had read: the queue is not
                    -- locked, and its bounds are not known. The next claim knows them.
                    next_at := p_now;
                    CONTINUE;
                END IF;
                IF v_bounds -> v_line.queue ->> 'left' IS NOT NULL THEN
                    v_limit := least(v_limit, (v_bounds -> v_line.queue ->> 'left')::integer
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
                v_plain := v_plain AND NOT v_line.suspect AND v_limit = v_places AND v_bounds IS NULL;
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
                v_tries := 8;        -- jobs that others have locked were skipped
            ELSE
                IF v_gated THEN
                    SELECT p.picked, p.passed_over INTO v_picked, v_passed
                    FROM limpet.v1_pick_for_gate(
                        v_queues, v_tasks, v_doubts, v_limits, v_floors, v_places, v_suspects,
                        v_missed, v_bounds, v_used, v_gate, p_now) p;
                    passed_over := greatest(passed_over, v_passed);
                ELSE
                    v_picked := limpet.v1_pick_jobs(
                        v_queues, v_tasks, v_doubts, v_limits, v_floors, v_places, v_suspects, v_plain,
                        v_missed, v_bounds, v_used, p_now);
                END IF;
                SELECT coalesce(array_agg(l.ctid), '{}'), v_missed || ARRAY(
                    SELECT unnest(v_picked) EXCEPT SELECT unnest(array_agg(l.id)))
                INTO v_rows, v_missed
                FROM (SELECT ctid, id FROM limpet.ready WHERE id = ANY (v_picked)
                      FOR UPDATE SKIP LOCKED) l;
                IF cardinality(v_rows) = cardinality(v_picked) THEN
                    v_tries := 8;    -- no other claim was faster
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
                       (v_bounds -> queue ->> 'concurrency') IS NOT NULL
                       OR coalesce(v_gate -> 'weights' ? task, false)
                FROM gone
                RETURNING id, queue, suspect, place, mark
            ), queues AS (
                SELECT queue, count(*) AS number FROM held GROUP BY queue
            ), counted AS (
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
            v_places := v_places - v_taken.number;
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
        next_at := least(next_at, p_now + 5000);     -- the transaction at the gate is about to commit
        passed_over := 2;            -- nobody has looked at the jobs in line, so one may fit
    END IF;
    IF v_bounds IS NOT NULL THEN
        next_at := least(next_at, limpet.v1_note_served(v_bounds, v_used, p_now));
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

-- lines: the lines (queue, task, suspect) that have ready jobs, and the sort key to read each from; without
-- paused queues. Each is found by one step in the index, or taken from p_lines, which a claim remembered.
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

-- pick_jobs: the first jobs of all lines together: no more of a queue than its limit, no more suspects than
-- can run alone, and none in p_missed. `p_plain`: p_places is the only limit. Where queues have weights,
-- each gets its share (see queue_bounds).
CREATE OR REPLACE FUNCTION limpet.v1_pick_jobs(
    p_queues text[], p_tasks text[], p_doubts boolean[], p_limits integer[], p_floors bigint[],
    p_places integer, p_suspects integer, p_plain boolean,
    p_missed text[], p_bounds jsonb, p_used jsonb, p_now bigint)
RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_picked text[] := '{}';
    v_left jsonb := '{}';
    v_job record;
BEGIN
    IF NOT p_plain THEN
        -- The limit of a queue is that of its line without suspects, or else that of its suspects.
        SELECT jsonb_object_agg(queue, most) INTO v_left FROM (
            SELECT l.queue, max(l.most) AS most
            FROM unnest(p_queues, p_limits) AS l (queue, most) GROUP BY l.queue) found;
    END IF;
    IF p_bounds @? '$.*.weight' THEN
        RETURN limpet.v1_pick_by_weight(
            p_queues, p_tasks, p_doubts, p_limits, p_floors, p_places, p_suspects, p_missed, v_left,
            p_bounds, p_used, p_now);
    END IF;
    FOR v_job IN
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
        EXIT WHEN cardinality(v_picked) = p_places;
        IF NOT p_plain THEN
            CONTINUE WHEN (v_left ->> v_job.queue)::integer = 0
                       OR (v_job.suspect AND p_suspects = 0);
            v_left := jsonb_set(
                v_left, ARRAY[v_job.queue], to_jsonb((v_left ->> v_job.queue)::integer - 1));
            p_suspects := p_suspects - v_job.suspect::integer;
        END IF;
        v_picked := v_picked || v_job.id;
    END LOOP;
    RETURN v_picked;
END $$;

-- added: two objects of counts by name, added up.
CREATE OR REPLACE FUNCTION limpet.v1_added(p_one jsonb, p_other jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_one = '{}' THEN
        RETURN p_other;              -- the usual case: the first take of a pool
    END IF;
    RETURN p_one || (
        SELECT jsonb_object_agg(key, coalesce((p_one ->> key)::integer, 0) + value::integer)
        FROM jsonb_each_text(p_other));
END $$;
