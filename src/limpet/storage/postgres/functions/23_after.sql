-- after: what follows in the same step when a job is no longer under way.
-- purpose: the job's turn goes to a job that waits for the key. Its parent waits for one child less; the
--          parent becomes ready after the last child, or fails with a child that it cannot do without.
--          The descendants of a parent that is gone are cancelled. Each of these may lead to the next.
-- params:  p_ids: the jobs that left.
--          p_targets: the states that they are in now.
--          p_turns: whether each had a turn of its key.
--          p_alone: whether each waited for children; if it did not succeed, its descendants are cancelled.
--          p_gone: more parents that are gone.
--          p_waits: whether this may wait for locks, because the transaction has locked no key yet.
--          p_now: the wall time.
-- returns: moved: how many jobs became ready.
--          unfinished: whether something is left as a note, for promote.
--          busy: whether it is left because another transaction has its rows locked.
-- why:     the parents and the keys of the jobs that left are locked first, see turns. What follows from
--          these is done as far as its rows are not locked by others; the rest is left as notes.

CREATE OR REPLACE FUNCTION limpet.v1_after(
    p_ids text[], p_targets text[], p_turns boolean[], p_alone boolean[], p_gone text[],
    p_waits boolean, p_now bigint, OUT moved integer, OUT unfinished boolean, OUT busy boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_busy text[];
    v_held text[];
    v_joined text[];
    v_keys text[];
    v_back integer[];
    v_strict text[];
    v_parents text[];
    v_numbers integer[];
    v_children text[];
    v_states text[];
    v_down record;
    v_fall record;
    v_left integer := 1000;
BEGIN
    moved := 0;
    unfinished := false;
    busy := false;
    p_gone := coalesce(p_gone, '{}');
    WHILE cardinality(p_ids) > 0 OR cardinality(p_gone) > 0 LOOP
        v_keys := NULL; v_parents := NULL; v_strict := NULL;
        v_down := NULL;
        IF NOT p_waits AND cardinality(p_ids) > 0 THEN
            v_busy := limpet.v1_busy(p_ids);
            IF cardinality(v_busy) > 0 THEN
                INSERT INTO limpet.note (kind, what, turn, alone)
                SELECT 'ended', g.id, g.turn, g.alone
                FROM unnest(p_ids, p_turns, p_alone) AS g (id, turn, alone)
                WHERE g.id = ANY (v_busy);
                SELECT coalesce(array_agg(g.id), '{}'), array_agg(g.target), array_agg(g.turn),
                       array_agg(g.alone)
                INTO p_ids, p_targets, p_turns, p_alone
                FROM unnest(p_ids, p_targets, p_turns, p_alone) AS g (id, target, turn, alone)
                WHERE g.id <> ALL (v_busy);
                unfinished := true;
                busy := true;
            END IF;
        END IF;
        IF cardinality(p_ids) > 0 THEN
            WITH ended AS (
                SELECT j.id, j.key, j.parent, limpet.v1_rules(j.rules) AS rules, g.target, g.turn,
                       g.target IN ('succeeded', 'failed', 'cancelled') AS final
                FROM limpet.job j
                JOIN unnest(p_ids, p_targets, p_turns) AS g (id, target, turn) ON g.id = j.id
                WHERE j.id = ANY (p_ids)
            ), kept AS (
                SELECT e.id FROM ended e
                WHERE e.target = 'scheduled' AND e.key IS NOT NULL AND e.turn
                  AND (e.rules ->> 'key_strict')::boolean
            ), keys AS (
                SELECT t.name, sum(t.back)::integer AS back FROM (
                    SELECT e.key AS name,
                           (e.turn AND e.id NOT IN (SELECT k.id FROM kept k))::integer AS back
                    FROM ended e WHERE e.key IS NOT NULL
                    UNION ALL
                    -- A parent may join the line of its own key.
                    SELECT o.key, 0 FROM ended e CROSS JOIN LATERAL (
                        SELECT a.key FROM limpet.job a WHERE a.id = e.parent OFFSET 0) o
                    WHERE e.parent IS NOT NULL AND e.final AND o.key IS NOT NULL) t
                GROUP BY t.name
            ), parents AS (
                SELECT e.parent, count(*)::integer AS number, min(e.id) FILTER (WHERE
                           e.target <> 'succeeded'
                           AND coalesce(e.rules ->> 'child_failure', 'fail') = 'fail') AS child
                FROM ended e CROSS JOIN LATERAL (
                    SELECT d.round FROM limpet.done d WHERE d.id = e.id OFFSET 0) d
                WHERE e.parent IS NOT NULL AND e.final AND d.round = 1
                GROUP BY e.parent
            )
            SELECT (SELECT array_agg(k.id) FROM kept k),
                   (SELECT array_agg(k.name) FROM keys k), (SELECT array_agg(k.back) FROM keys k),
                   (SELECT array_agg(p.parent) FROM parents p),
                   (SELECT array_agg(p.number) FROM parents p),
                   (SELECT array_agg(p.child) FROM parents p),
                   (SELECT array_agg(e.target) FROM parents p LEFT JOIN ended e ON e.id = p.child)
            INTO v_strict, v_keys, v_back, v_parents, v_numbers, v_children, v_states;
            IF v_strict IS NOT NULL THEN
                UPDATE limpet.parked SET turn = true WHERE id = ANY (v_strict);
            END IF;
            p_gone := p_gone || ARRAY(
                SELECT g.id FROM unnest(p_ids, p_targets, p_alone) AS g (id, target, alone)
                WHERE g.alone AND g.target IN ('failed', 'cancelled'));
            -- Jobs that have fanned out into no children.
            v_joined := ARRAY(SELECT g.id FROM unnest(p_ids, p_targets) AS g (id, target)
                              WHERE g.target = 'blocked');
            p_ids := '{}'; p_targets := '{}'; p_turns := '{}'; p_alone := '{}';
            IF v_parents IS NOT NULL AND p_waits THEN
                PERFORM FROM limpet.parked b
                WHERE b.id = ANY (v_parents) AND (b.reason = 'children') IS TRUE
                ORDER BY b.id FOR UPDATE;
            END IF;
            v_held := CASE WHEN v_keys IS NULL THEN '{}' WHEN p_waits THEN limpet.v1_keys(v_keys)
                           ELSE limpet.v1_free_keys(v_keys, false) END;
            IF v_parents IS NOT NULL THEN
                SELECT * INTO v_down FROM limpet.v1_children_ended(
                    v_parents, v_numbers, v_children, v_states, p_now);
                moved := moved + v_down.moved;
                p_gone := p_gone || v_down.abandoned;
                v_joined := v_joined || v_down.joined;
                p_ids := v_down.abandoned;
                p_targets := array_fill('failed'::text, ARRAY[cardinality(p_ids)]);
                p_turns := array_fill(false, ARRAY[cardinality(p_ids)]);
                p_alone := p_turns;
            END IF;
            IF cardinality(v_joined) > 0 THEN
                PERFORM limpet.v1_expect_jobs(v_joined, v_held);
            END IF;
            IF cardinality(v_held) > 0 THEN
                IF NOT p_waits THEN
                    SELECT array_agg(g.name), array_agg(g.back) INTO v_keys, v_back
                    FROM unnest(v_keys, v_back) AS g (name, back) WHERE g.name = ANY (v_held);
                END IF;
                moved := moved + limpet.v1_turns(v_keys, v_back, p_now);
            END IF;
        END IF;
        p_waits := false;
        IF cardinality(p_gone) > 0 THEN
            SELECT * INTO v_fall FROM limpet.v1_cascade(p_gone, v_left, p_now);
            v_left := v_left - v_fall.number;
            p_ids := p_ids || v_fall.ids;
            p_targets := p_targets || array_fill('cancelled'::text, ARRAY[cardinality(v_fall.ids)]);
            p_turns := p_turns || v_fall.turns;
            p_alone := p_alone || v_fall.alone;
            IF cardinality(v_fall.rest) > 0 THEN
                INSERT INTO limpet.note (kind, what) SELECT 'gone', unnest(v_fall.rest);
                unfinished := true;
                busy := busy OR v_fall.busy;
            END IF;
            p_gone := '{}';
        END IF;
    END LOOP;
END $$;

-- busy: the jobs whose key or parent another transaction has locked; the keys and the parents of the others
-- are locked by this. A key that does not exist has no turns to give, and no job waits for it.
CREATE OR REPLACE FUNCTION limpet.v1_busy(p_ids text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_parents text[] := ARRAY(
        SELECT b.id FROM limpet.parked b
        WHERE b.id = ANY (ARRAY(SELECT j.parent FROM limpet.job j
                                WHERE j.id = ANY (p_ids) AND j.parent IS NOT NULL))
          AND (b.reason = 'children') IS TRUE
        FOR UPDATE SKIP LOCKED);
    v_keys text[] := limpet.v1_free_keys(ARRAY(
        SELECT DISTINCT j.key FROM limpet.job j
        WHERE j.id = ANY (p_ids) AND j.key IS NOT NULL), false);
BEGIN
    RETURN ARRAY(
        SELECT j.id FROM limpet.job j
        WHERE j.id = ANY (p_ids) AND (
            (j.key <> ALL (v_keys) AND EXISTS (SELECT FROM limpet.key k WHERE k.name = j.key))
            OR (j.parent <> ALL (v_parents) AND EXISTS (
                SELECT FROM limpet.parked b
                WHERE b.id = j.parent AND (b.reason = 'children') IS TRUE))));
END $$;

-- children_ended: parents, which are locked, wait for fewer children.
-- p_numbers: how many children less for each parent. p_children: a child whose failure fails the parent.
-- p_states: the state of that child.
-- moved: how many parents became ready. abandoned: parents that failed. joined: parents that have joined the
-- line of their key; the caller runs expect_jobs and gives the turns.
CREATE OR REPLACE FUNCTION limpet.v1_children_ended(
    p_parents text[], p_numbers integer[], p_children text[], p_states text[], p_now bigint,
    OUT moved integer, OUT abandoned text[], OUT joined text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_over text[];
BEGIN
    joined := '{}';
    -- IS TRUE, here and below: finds the rows by id, not by the index of blocked jobs, which reads more.
    WITH given AS (
        SELECT * FROM unnest(p_parents, p_children, p_states) AS g (id, child, state)
        WHERE g.child IS NOT NULL
    ), gone AS (
        DELETE FROM limpet.parked b
        WHERE b.id = ANY (ARRAY(SELECT g.id FROM given g)) AND (b.reason = 'children') IS TRUE
        RETURNING b.*
    ), failed AS (
        SELECT o.*, json_build_object(
            'kind', 'ChildFailed', 'job', g.child, 'state', g.state,
            'text', 'its child ' || g.child || ' is ' || g.state)::text AS cause
        FROM gone o JOIN given g ON g.id = o.id
    ), done AS (
        INSERT INTO limpet.done
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               'failed', p_now
        FROM failed
    ), events AS (
        INSERT INTO limpet.event (id, at, event, cause)
        SELECT id, p_now, 'failed', cause FROM failed ORDER BY n
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error) SELECT id, cause FROM failed
        ON CONFLICT (id) DO UPDATE SET error = excluded.error
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'abandon', 'blocked', 'failed', count(*) FROM failed GROUP BY queue
    )
    SELECT coalesce(array_agg(id), '{}') INTO abandoned FROM failed;
    WITH less AS (
        UPDATE limpet.parked b SET pending = greatest(b.pending - g.number, 0)
        FROM unnest(p_parents, p_numbers) AS g (id, number)
        WHERE b.id = g.id AND b.id = ANY (p_parents) AND (b.reason = 'children') IS TRUE
        RETURNING b.id, b.pending
    )
    SELECT array_agg(l.id) INTO v_over FROM less l WHERE l.pending = 0;
    moved := 0;
    IF v_over IS NULL THEN
        RETURN;
    END IF;
    WITH waiting AS (
        UPDATE limpet.parked b
        SET reason = 'key', what = limpet.v1_line_place(j.key, b.sort_key, b.n), since = p_now,
            shaped = true
        FROM limpet.job j
        WHERE b.id = ANY (v_over) AND j.id = ANY (v_over) AND j.id = b.id AND j.key IS NOT NULL
          AND (b.reason = 'children') IS TRUE
        RETURNING b.id
    )
    SELECT coalesce(array_agg(j.id), '{}') INTO joined FROM waiting j;
    WITH gone AS (
        DELETE FROM limpet.parked b
        WHERE b.id = ANY (v_over) AND (b.reason = 'children') IS TRUE RETURNING b.*
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               shaped
        FROM gone
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'unblock', 'blocked', 'ready', count(*) FROM gone GROUP BY queue
    )
    SELECT count(*) INTO moved FROM gone;
END $$;

-- cascade: the children of parents that are gone: waiting to cancelled, running to cancel requested; at most
-- p_limit. rest: parents with more children, and parents with a child that another transaction has locked.
-- That transaction may be settling the child, and then waits for the parent: to wait for the child here
-- would be a deadlock.
-- number: how many children were looked at. ids, turns, alone: those that were cancelled, as after takes
-- them. busy: whether a child was locked.
CREATE OR REPLACE FUNCTION limpet.v1_cascade(
    p_parents text[], p_limit integer, p_now bigint,
    OUT number integer, OUT ids text[], OUT turns boolean[], OUT alone boolean[], OUT rest text[],
    OUT busy boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_parent text;
    v_child text;
    v_stop record;
BEGIN
    number := 0;
    busy := false;
    ids := '{}'; turns := '{}'; alone := '{}'; rest := '{}';
    FOREACH v_parent IN ARRAY p_parents LOOP
        FOR v_child IN
            SELECT c.id FROM limpet.child c
            WHERE c.parent = v_parent
              AND NOT EXISTS (SELECT FROM limpet.done d WHERE d.id = c.id)
              AND NOT EXISTS (SELECT FROM limpet.running r
                              WHERE r.id = c.id AND r.cancel_requested_at IS NOT NULL)
            ORDER BY c.n LIMIT p_limit - number + 1
        LOOP
            IF number >= p_limit THEN
                IF v_parent <> ALL (rest) THEN
                    rest := rest || v_parent;
                END IF;
                EXIT;
            END IF;
            SELECT * INTO v_stop FROM limpet.v1_stop(v_child, json_build_object(
                'kind', 'ParentGone', 'job', v_parent,
                'text', 'its parent ' || v_parent || ' failed or was cancelled')::text, p_now, false);
            number := number + 1;
            busy := busy OR (v_stop.state = 'busy') IS TRUE;
            IF v_stop.state = 'busy' AND v_parent <> ALL (rest) THEN
                rest := rest || v_parent;
            END IF;
            IF v_stop.stopped THEN
                ids := ids || v_child;
                turns := turns || v_stop.turn;
                alone := alone || v_stop.alone;
            END IF;
        END LOOP;
    END LOOP;
END $$;
