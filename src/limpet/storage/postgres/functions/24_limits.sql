-- limits: what bounds the claims of some queues and tasks.
-- purpose: queue_bounds: how many jobs of each queue with rules may start now, and its share where queues
--          have weights; locks these queues, by name.
--          note_served: count the jobs that were taken against the rates and weights of their queues.
--          open_breakers: find the tasks that breakers hold back.
--          probe: note that a job of such a task is tried.
-- params:  p_want: the pools as JSON.
--          p_now: the wall time.
--          p_bounds: the result of queue_bounds.
--          p_used: how many jobs of each queue were taken.
-- returns: queue_bounds: JSON of queues and their bounds.
--          note_served: when to come back for jobs that a rate or a hold kept back.
-- weights: every job of a queue has a tag, which is 1/weight above the tag of the job before it; the lowest
--          tags are served first. A queue that had no jobs for a while goes on at the tag served last.

CREATE OR REPLACE FUNCTION limpet.v1_queue_bounds(p_want jsonb, p_now bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_any boolean := p_want @? '$[*].slots."*"';
    v_weighed boolean := EXISTS (SELECT FROM limpet.queue q WHERE q.weight IS NOT NULL);
    v_real bigint := limpet.v1_time(NULL);
    v_bounds jsonb := '{}';
    v_queue record;
    v_left bigint;
    v_running bigint;
    v_tag double precision;
BEGIN
    IF v_weighed THEN
        INSERT INTO limpet.queue (name)
        SELECT DISTINCT l.queue FROM limpet.v1_lines(NULL) l
        WHERE NOT EXISTS (SELECT FROM limpet.queue q WHERE q.name = l.queue)
        ORDER BY 1 ON CONFLICT (name) DO NOTHING;
        v_tag := (SELECT max(q.start_tag) FROM limpet.queue q);
    END IF;
    FOR v_queue IN
        SELECT q.* FROM limpet.queue q
        WHERE (v_weighed OR q.concurrency IS NOT NULL OR q.step IS NOT NULL OR q.held_until > 0)
          AND NOT q.paused AND (v_any OR EXISTS (
              SELECT FROM jsonb_array_elements(p_want) w WHERE w.value -> 'slots' ? q.name))
          AND EXISTS (SELECT FROM limpet.ready r WHERE r.queue = q.name)
        ORDER BY q.name FOR UPDATE
    LOOP
        v_left := NULL;
        IF v_queue.held_until > p_now THEN
            v_left := 0;
        END IF;
        IF v_queue.concurrency IS NOT NULL THEN
            IF v_queue.limited_at > v_real - 60000000 THEN
                -- A claim that did not know of the limit may have committed since the limit was set. Its jobs
                -- are marked now. An exchange that settles a job has the job locked and may wait for this
                -- queue, so locked jobs are skipped, and all running jobs are counted.
                UPDATE limpet.running r SET limited = true WHERE r.ctid = ANY (ARRAY(
                    SELECT u.ctid FROM limpet.running u
                    WHERE u.queue = v_queue.name AND NOT u.limited FOR UPDATE SKIP LOCKED));
                v_running := (SELECT count(*) FROM limpet.running r WHERE r.queue = v_queue.name);
            ELSE
                v_running := (SELECT count(*) FROM limpet.running r
                              WHERE r.queue = v_queue.name AND r.limited);
            END IF;
            v_left := least(v_left, v_queue.concurrency - v_running);
        END IF;
        IF v_queue.step IS NOT NULL THEN
            -- As in domain/rate.py.
            v_left := least(v_left, (p_now + v_queue.burst * v_queue.step
                - greatest(v_queue.given_until, p_now)) / v_queue.step);
        END IF;
        v_bounds := v_bounds || jsonb_build_object(v_queue.name, jsonb_build_object(
            'left', CASE WHEN v_left < 0 THEN 0 ELSE v_left END, 'concurrency', v_queue.concurrency, 'step', v_queue.step,
            'burst', v_queue.burst, 'given', v_queue.given_until, 'held', v_queue.held_until)
            || CASE WHEN NOT v_weighed THEN '{}' ELSE jsonb_build_object(
                'weight', coalesce(v_queue.weight, 1),
                'tag', greatest(v_queue.next_tag, v_tag)) END);
    END LOOP;
    RETURN v_bounds;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_note_served(p_bounds jsonb, p_used jsonb, p_now bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_bound record;
    v_given bigint;
    v_next bigint;
BEGIN
    FOR v_bound IN
        SELECT e.key AS name, coalesce((p_used ->> e.key)::integer, 0) AS taken, q.*
        FROM jsonb_each(p_bounds) e CROSS JOIN LATERAL jsonb_to_record(e.value) AS q (
            step bigint, burst bigint, given bigint, held bigint, weight integer,
            tag double precision)
    LOOP
        v_given := CASE WHEN v_bound.taken = 0 OR v_bound.step IS NULL THEN v_bound.given
                        ELSE greatest(v_bound.given, p_now) + v_bound.taken * v_bound.step END;
        IF v_bound.taken > 0 OR (v_bound.held > 0 AND v_bound.held <= p_now) THEN
            UPDATE limpet.queue q
            SET given_until = v_given,
                held_until = CASE WHEN q.held_until > p_now THEN q.held_until ELSE 0 END,
                start_tag = CASE WHEN v_bound.weight IS NULL OR v_bound.taken = 0 THEN q.start_tag
                    ELSE v_bound.tag + (v_bound.taken - 1)::double precision / v_bound.weight END,
                next_tag = CASE WHEN v_bound.weight IS NULL OR v_bound.taken = 0 THEN q.next_tag
                    ELSE v_bound.tag + v_bound.taken::double precision / v_bound.weight END
            WHERE q.name = v_bound.name;
        END IF;
        IF v_bound.held > p_now THEN
            v_next := least(v_next, v_bound.held);
        ELSIF v_bound.step IS NOT NULL
              AND p_now + v_bound.burst * v_bound.step - greatest(v_given, p_now) < v_bound.step
              AND EXISTS (SELECT FROM limpet.ready r WHERE r.queue = v_bound.name) THEN
            v_next := least(v_next,
                greatest(p_now, v_given - (v_bound.burst - 1) * v_bound.step));
        END IF;
    END LOOP;
    RETURN v_next;
END $$;

-- pick_by_weight: as pick_jobs, in the order of tags.
CREATE OR REPLACE FUNCTION limpet.v1_pick_by_weight(
    p_queues text[], p_tasks text[], p_doubts boolean[], p_limits integer[], p_floors bigint[],
    p_places integer, p_suspects integer, p_missed text[], p_left jsonb, p_bounds jsonb,
    p_used jsonb, p_now bigint)
RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_picked text[] := '{}';
    v_job record;
BEGIN
    FOR v_job IN
        SELECT f.id, f.queue, f.suspect,
               coalesce((p_bounds -> f.queue ->> 'tag')::double precision, 0)
               + (coalesce((p_used ->> f.queue)::integer, 0) + f.place - 1)::double precision
               / coalesce((p_bounds -> f.queue ->> 'weight')::integer, 1) AS tag
        FROM (SELECT c.*, row_number() OVER (PARTITION BY c.queue ORDER BY c.sort_key, c.n) AS place
              FROM unnest(p_queues, p_tasks, p_doubts, p_limits, p_floors)
                   AS l (queue, task, suspect, most, from_key)
              CROSS JOIN LATERAL (
                  SELECT r.id, r.queue, r.suspect, r.sort_key, r.n FROM limpet.ready r
                  WHERE r.queue = l.queue AND r.task = l.task AND r.suspect = l.suspect
                    AND r.sort_key >= l.from_key AND r.id <> ALL (p_missed)
                    AND (LEAST(r.expires_at, r.deadline_at) > p_now
                         OR LEAST(r.expires_at, r.deadline_at) IS NULL)
                  ORDER BY r.sort_key, r.n
                  LIMIT l.most) c) f
        ORDER BY tag, f.sort_key, f.n
    LOOP
        EXIT WHEN cardinality(v_picked) = p_places;
        CONTINUE WHEN (p_left ->> v_job.queue)::integer = 0
                   OR (v_job.suspect AND p_suspects = 0);
        p_left := jsonb_set(
            p_left, ARRAY[v_job.queue], to_jsonb((p_left ->> v_job.queue)::integer - 1));
        p_suspects := p_suspects - v_job.suspect::integer;
        v_picked := v_picked || v_job.id;
    END LOOP;
    RETURN v_picked;
END $$;

-- open_breakers: each task that is held back, with the name of its breaker, when a job may be tried, and
-- whether that is now. If it is now, the breaker is locked by this; if another transaction has it locked,
-- no job is tried.
CREATE OR REPLACE FUNCTION limpet.v1_open_breakers(p_want jsonb, p_now bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_due text[] := ARRAY(
        SELECT b.name FROM limpet.breaker b WHERE b.state <> 'closed' AND b.probe_at <= p_now
          AND EXISTS (
              SELECT FROM jsonb_array_elements(p_want) w
              JOIN limpet.taskset t ON t.digest = w.value ->> 'tasks' WHERE t.task = ANY (b.tasks))
        ORDER BY b.name FOR UPDATE SKIP LOCKED);
BEGIN
    RETURN (
        SELECT jsonb_object_agg(f.task, jsonb_build_object(
            'name', f.name, 'due', f.due, 'next_at', CASE WHEN f.due THEN f.again_at ELSE f.at END))
        FROM (SELECT DISTINCT ON (t.task) t.task, b.name, b.name = ANY (v_due) AS due,
                     greatest(b.probe_at, p_now) AS at, p_now + b.probe_after AS again_at
              FROM limpet.breaker b CROSS JOIN unnest(b.tasks) AS t (task)
              WHERE b.state <> 'closed'
              -- The strictest, where several breakers hold a task back.
              ORDER BY t.task, b.name = ANY (v_due), b.probe_at DESC) f);
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_probe(p_jobs text[], p_now bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE limpet.breaker b
    SET state = 'probing', probe_at = p_now + b.probe_after,
        piece = coalesce((limpet.v1_piece(b.piece) || jsonb_build_object(
            'state', 'probing', 'probe_at', p_now + b.probe_after,
            -- Only the newest 100, see domain/breaker.py.
            'tries', CASE WHEN jsonb_array_length(limpet.v1_piece(b.piece) -> 'tries') >= 100
                          THEN (limpet.v1_piece(b.piece) -> 'tries') - 0
                          ELSE coalesce(limpet.v1_piece(b.piece) -> 'tries', '[]') END
                || (SELECT jsonb_agg(jsonb_build_array(r.id, r.token)) FROM limpet.running r
                    WHERE r.id = ANY (p_jobs) AND r.task = ANY (b.tasks))))::text, b.piece)
    WHERE b.state <> 'closed' AND b.probe_at <= p_now AND EXISTS (
        SELECT FROM limpet.running r WHERE r.id = ANY (p_jobs) AND r.task = ANY (b.tasks))
$$;
