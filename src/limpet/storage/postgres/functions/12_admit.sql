-- admit: write new jobs of every kind.
-- purpose: (nothing) to ready or scheduled, or blocked by its key or its children. Jobs for a drained queue,
--          and jobs whose unique is held by another job, are not written.
-- params:  p_ids to p_versions, p_wall, p_fenced, p_ring: as those of enqueue.
--          p_rules: a column of rules (JSON).
--          p_epoch: as that of enqueue; then no key and no parent is locked, and what would need their
--          locks is left as a note.
--          p_flow: the jobs belong to a committed flow.
--          p_whole: where one queue is drained, none of the jobs is written.
-- returns: one row.
--          at: the time of the write.
--          refused: the jobs that were not written, as JSON of ids and [outcome, job, state].
--          blocked: the jobs that are blocked, as a JSON list of ids.
--          rung: whether the caller need not ring any more.
-- errors:  LP006 with a job and its parent as JSON, where the parent does not exist or does not wait.

CREATE OR REPLACE FUNCTION limpet.v1_admit(
    p_ids text, p_tails text, p_tasks text, p_queues text, p_args text, p_options text,
    p_secrets text, p_priorities text, p_scheduled text, p_expires text, p_deadlines text,
    p_keys text, p_uniques text, p_parents text, p_roots text, p_weights text, p_versions text,
    p_rules text, p_wall bigint, p_epoch text, p_fenced boolean, p_flow boolean, p_whole boolean,
    p_ring boolean, OUT at bigint, OUT refused json, OUT blocked json, OUT rung boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids text[] := limpet.v1_column(p_ids);
    v_tasks text[] := limpet.v1_column(p_tasks);
    v_queues text[] := limpet.v1_column(p_queues);
    v_options text[] := limpet.v1_column(p_options);
    v_parents text[] := limpet.v1_column(p_parents);
    v_keys text[] := limpet.v1_column(p_keys);
    v_rules json[] := limpet.v1_column(p_rules)::json[];
    v_priorities integer[] := limpet.v1_column(p_priorities)::integer[];
    v_no jsonb;
    v_kinds text[];                  -- of each job: refused, children, scheduled, key, turn or ready
    v_single record;
    v_before record;
    v_joined text[];
    v_there text[];
    v_counts record;
    v_ready bigint;
    v_gone record;                   -- the jobs that were replaced
BEGIN
    PERFORM limpet.v1_pass(NOT (p_fenced OR p_flow));
    IF p_epoch IS NOT NULL THEN
        -- See enqueue.
        PERFORM FROM limpet.store FOR SHARE;
        IF p_epoch <> (SELECT epoch FROM limpet.store) THEN
            RAISE EXCEPTION 'another store' USING ERRCODE = 'LP002';
        END IF;
    END IF;
    at := limpet.v1_time(p_wall);
    rung := false;
    SELECT coalesce(jsonb_object_agg(p.id, jsonb_build_array('already', p.id, p.state)), '{}')
    INTO v_no FROM limpet.placed p WHERE p.id = ANY (v_ids);
    IF NOT p_fenced AND NOT p_flow AND EXISTS (SELECT FROM limpet.queue q WHERE q.draining) THEN
        SELECT v_no || coalesce(
                   jsonb_object_agg(g.id, jsonb_build_array('draining', g.id, NULL)) FILTER (
                       WHERE g.drained OR (p_whole AND g.one)), '{}')
        INTO v_no
        FROM (SELECT u.id, d.name IS NOT NULL AS drained, bool_or(d.name IS NOT NULL) OVER () AS one
              FROM unnest(v_ids, v_queues) AS u (id, queue)
              LEFT JOIN limpet.queue d ON d.draining AND d.name = coalesce(u.queue, v_queues[1])
              WHERE NOT v_no ? u.id) g;
        IF p_whole AND v_no @? '$.*[0] ? (@ == "draining")' THEN
            refused := v_no;
            RETURN;
        END IF;
    END IF;
    IF p_uniques IS NOT NULL THEN
        FOR v_single IN
            SELECT g.id, coalesce(g.task, v_tasks[1]) AS task, g.name,
                   coalesce((g.rules ->> 'replaces')::boolean, false) AS replaces,
                   CASE WHEN g.rules ->> 'unique_until' = 'time'
                        THEN at + (g.rules ->> 'unique_for')::bigint END AS until_at
            FROM unnest(v_ids, v_tasks, limpet.v1_column(p_uniques), v_rules)
                 WITH ORDINALITY AS g (id, task, name, rules, ord)
            WHERE g.name IS NOT NULL AND NOT v_no ? g.id
            ORDER BY coalesce(g.task, v_tasks[1]) COLLATE "C", g.name COLLATE "C", g.ord
        LOOP
            SELECT * INTO v_before FROM limpet.v1_taken(
                v_single.task, v_single.name, v_single.id, v_single.until_at, v_single.replaces, at);
            IF v_before.id IS NOT NULL THEN
                v_no := v_no || jsonb_build_object(v_single.id, jsonb_build_array(
                    CASE WHEN v_before.waits AND v_single.replaces THEN 'replaces' ELSE 'duplicate' END,
                    v_before.id, NULL));
            END IF;
        END LOOP;
    END IF;
    -- Lock replaced jobs and parents before the keys; see turns.
    SELECT * INTO v_gone FROM limpet.v1_replaced(v_ids, v_no, false, at);
    IF p_parents IS NOT NULL THEN
        IF p_flow THEN
            PERFORM FROM limpet.parked b
            WHERE b.id = ANY (v_parents) AND (b.reason = 'children') IS TRUE
            ORDER BY b.id FOR UPDATE;
        END IF;
        SELECT array_agg(DISTINCT g.parent) INTO v_there
        FROM unnest(v_ids, v_parents) AS g (id, parent)
        WHERE g.parent IS NOT NULL AND coalesce(v_no -> g.id ->> 0, 'replaces') = 'replaces'
          AND (g.parent <> ALL (v_ids) OR coalesce(v_no -> g.parent ->> 0, 'replaces') <> 'replaces');
        IF v_there IS NOT NULL THEN
            PERFORM limpet.v1_with_parents(v_ids, v_parents, v_there, v_no, p_epoch, p_flow);
        END IF;
    END IF;
    v_kinds := ARRAY(
        SELECT CASE WHEN coalesce(v_no -> g.id ->> 0, 'replaces') <> 'replaces' THEN 'refused'
                    WHEN (g.rules ->> 'children')::integer > 0 THEN 'children'
                    WHEN g.scheduled_for::bigint > at THEN 'scheduled'
                    WHEN g.key IS NOT NULL THEN 'key' ELSE 'ready' END
        FROM unnest(v_ids, v_rules, limpet.v1_column(p_scheduled), v_keys)
             WITH ORDINALITY AS g (id, rules, scheduled_for, key, ord)
        ORDER BY g.ord);
    IF 'refused' = ANY (v_kinds) AND p_parents IS NOT NULL AND p_epoch IS NULL THEN
        -- A parent that does not have to wait for a refused child needs its own key.
        PERFORM limpet.v1_keys(ARRAY(
            SELECT g.key FROM unnest(v_kinds, v_keys) AS g (kind, key) WHERE g.kind = 'key'
            UNION
            SELECT coalesce(o.key, j.key) FROM unnest(v_kinds, v_parents) AS g (kind, parent)
            LEFT JOIN unnest(v_ids, v_keys) AS o (id, key) ON o.id = g.parent
            LEFT JOIN limpet.job j ON j.id = g.parent
            WHERE g.kind = 'refused' AND coalesce(o.key, j.key) IS NOT NULL));
    END IF;
    IF 'key' = ANY (v_kinds) AND p_epoch IS NULL THEN
        SELECT t.kinds, t.joined INTO v_kinds, v_joined
        FROM limpet.v1_give_turns(v_kinds, v_keys, v_priorities, v_rules) t;
    END IF;
    WITH given AS (
        SELECT * FROM unnest(
            v_ids, limpet.v1_column(p_tails), v_tasks, v_queues, limpet.v1_column(p_args), v_options,
            limpet.v1_column(p_secrets), v_priorities, limpet.v1_column(p_scheduled),
            limpet.v1_column(p_expires), limpet.v1_column(p_deadlines), v_keys,
            limpet.v1_column(p_uniques), v_parents, limpet.v1_column(p_roots),
            limpet.v1_column(p_weights), limpet.v1_column(p_versions), limpet.v1_column(p_rules),
            v_kinds)
        AS g (id, tail, task, queue, args, options, secrets, priority, scheduled_for, expires_at,
              deadline_at, key, unique_key, parent, root, weight_class, payload_version, rules, kind)
        WHERE kind <> 'refused'
    ), numbered AS (
        SELECT g.*, nextval('limpet.line') AS n FROM given g
    ), fresh AS (
        INSERT INTO limpet.job (
            id, n, tail, task, queue, priority, created_at, scheduled_for, expires_at, deadline_at,
            key, unique_key, parent, root, weight_class, payload_version, args, options, secrets,
            rules)
        SELECT g.id, g.n, g.tail::bigint, coalesce(g.task, v_tasks[1]),
               coalesce(g.queue, v_queues[1]), coalesce(g.priority, 0), at, g.scheduled_for::bigint,
               g.expires_at::bigint, g.deadline_at::bigint, g.key, g.unique_key, g.parent, g.root,
               g.weight_class, coalesce(g.payload_version::integer, 1), g.args,
               coalesce(g.options, v_options[1]), coalesce(g.secrets, '[]'), g.rules
        FROM numbered g
    ), placed AS (
        SELECT g.id, g.n, g.tail::bigint AS tail, coalesce(g.task, v_tasks[1]) AS task,
               coalesce(g.queue, v_queues[1]) AS queue, coalesce(g.priority, 0) AS priority,
               greatest(g.scheduled_for::bigint, at) AS ready_at,
               greatest(g.scheduled_for::bigint, at)
               - coalesce(g.priority, 0) * 60000000::bigint AS sort_key,
               g.expires_at::bigint AS expires_at, g.deadline_at::bigint AS deadline_at, g.key,
               g.kind, g.key IS NOT NULL OR g.parent IS NOT NULL AS shaped,
               CASE WHEN g.kind = 'children' THEN (g.rules::json ->> 'children')::integer
                    ELSE 0 END AS pending
        FROM numbered g
    ), ready AS (
        INSERT INTO limpet.ready (
            id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
            orphans, strikes, suspect, last_run, expires_at, deadline_at, shaped)
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, 1, 0, 0, 0, 0, false, false,
               expires_at, deadline_at, shaped
        FROM placed WHERE kind IN ('ready', 'turn')
    ), parked AS (
        INSERT INTO limpet.parked (
            id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
            orphans, strikes, suspect, last_run, expires_at, deadline_at, state, reason, what, since,
            shaped, pending)
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, 1, 0, 0, 0, 0, false, false,
               expires_at, deadline_at, CASE kind WHEN 'scheduled' THEN kind ELSE 'blocked' END,
               CASE WHEN kind <> 'scheduled' THEN kind END,
               CASE kind WHEN 'children' THEN '' WHEN 'key' THEN limpet.v1_line_place(key, sort_key, n) END,
               CASE WHEN kind <> 'scheduled' THEN at END, shaped, pending
        FROM placed WHERE kind IN ('scheduled', 'children', 'key')
    ), family AS (
        INSERT INTO limpet.child (parent, n, id)
        SELECT g.parent, g.n, g.id FROM numbered g WHERE g.parent IS NOT NULL
    ), later AS (
        INSERT INTO limpet.note (kind, what, most, rated)
        SELECT 'key', g.key, max(coalesce((g.rules::json ->> 'key_limit')::integer, 1)),
               bool_or(g.rules::json -> 'key_rate' IS NOT NULL)
        FROM numbered g WHERE g.kind = 'key' AND p_epoch IS NOT NULL GROUP BY g.key
    ), counted AS (
        INSERT INTO limpet.tally (queue, move, source, target, jobs)
        SELECT queue, 'enqueue', NULL, CASE WHEN kind IN ('ready', 'turn') THEN 'ready'
               WHEN kind = 'scheduled' THEN kind ELSE 'blocked' END, count(*)
        FROM placed GROUP BY 1, 4
    )
    SELECT count(*) AS fresh, count(*) FILTER (WHERE kind IN ('ready', 'turn')) AS ready,
           max(n) AS last INTO v_counts FROM placed;
    v_ready := v_counts.ready;
    IF v_joined IS NOT NULL THEN
        v_ready := v_ready
            + limpet.v1_turns(v_joined, array_fill(0, ARRAY[cardinality(v_joined)]), at);
    END IF;
    IF v_no <> '{}' OR p_flow THEN
        v_ready := v_ready + limpet.v1_settle_refused(
            v_ids, v_parents, v_kinds, v_no, v_gone.ids, v_gone.turns, v_gone.alone, p_epoch, p_flow,
            at);
        SELECT json_object_agg(e.key, CASE e.value ->> 0
                   WHEN 'duplicate' THEN json_build_array('duplicate', e.value ->> 1, (
                       SELECT p.state FROM limpet.placed p WHERE p.id = e.value ->> 1))
                   ELSE e.value::json END)
        INTO refused
        FROM (SELECT n.key, n.value FROM jsonb_each(v_no) n WHERE n.value ->> 0 <> 'replaces'
              UNION ALL
              -- Jobs that were replaced by another job of the same call.
              SELECT n.value ->> 1, jsonb_build_array('new', n.value ->> 1, 'cancelled')
              FROM jsonb_each(v_no) n
              WHERE n.value ->> 0 = 'replaces' AND n.value ->> 1 = ANY (v_ids)) e;
    END IF;
    IF v_counts.fresh > v_counts.ready THEN
        SELECT array_agg(g.id) INTO v_there FROM unnest(v_ids, v_kinds) AS g (id, kind)
        WHERE g.kind IN ('children', 'key');
        IF v_ready > v_counts.ready THEN
            v_there := ARRAY(
                SELECT unnest(v_there) EXCEPT
                SELECT r.id FROM limpet.ready r WHERE r.id = ANY (v_there));
        END IF;
        blocked := to_json(v_there);
    END IF;
    -- See enqueue.
    rung := v_ready = 0 AND v_no = '{}';
    IF NOT rung AND p_ring AND (p_epoch IS NOT NULL
            OR pg_try_advisory_xact_lock(hashtextextended('limpet.ready', 0))) THEN
        PERFORM pg_notify('limpet.ready', '');
        rung := true;
    END IF;
    IF v_counts.last % 512 < v_counts.fresh AND p_epoch IS NULL THEN
        PERFORM limpet.v1_fold(1000);
    END IF;
END $$;

-- give_turns: lock the keys of new jobs, and give the jobs turns. Where other jobs wait for a key, or a rate
-- counts, all new jobs of the key join its line first.
-- kinds: as p_kinds, with 'turn' for a job that has its turn at once.
-- joined: the keys whose line was joined.
CREATE OR REPLACE FUNCTION limpet.v1_give_turns(
    p_kinds text[], p_keys text[], p_priorities integer[], p_rules json[],
    OUT kinds text[], OUT joined text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_names text[];
    v_held integer[];
    v_free boolean[];
    v_limits integer[];
    v_given integer[];
BEGIN
    WITH named AS (
        -- A new key gets the number of turns that it will have, so that it is written only once.
        INSERT INTO limpet.key AS k (name, held, most, rated)
        SELECT g.key, least(count(*), max(g.most)), max(g.most), bool_or(g.rated)
        FROM (SELECT a.key, coalesce((a.rules ->> 'key_limit')::integer, 1) AS most,
                     a.rules -> 'key_rate' IS NOT NULL AS rated
              FROM unnest(p_kinds, p_keys, p_rules) AS a (kind, key, rules)
              WHERE a.kind = 'key') g
        GROUP BY g.key ORDER BY g.key COLLATE "C"
        ON CONFLICT (name) DO UPDATE
        SET most = greatest(k.most, excluded.most), rated = k.rated OR excluded.rated
        RETURNING k.name, CASE WHEN k.xmax = 0 THEN 0 ELSE k.held END AS held, k.rated, k.set_limit
    )
    SELECT array_agg(n.name), array_agg(n.held), array_agg(NOT n.rated), array_agg(n.set_limit)
    INTO v_names, v_held, v_free, v_limits FROM named n;
    -- Read only now, because the statement above may have waited for another transaction.
    v_free := ARRAY(
        SELECT g.free AND NOT EXISTS (
            SELECT FROM limpet.parked b
            WHERE b.state = 'blocked' AND b.reason = 'key'
              AND b.what > g.name || E'\x1e' AND b.what < g.name || E'\x1f')
        FROM unnest(v_names, v_free) WITH ORDINALITY AS g (name, free, ord) ORDER BY g.ord);
    WITH judged AS (
        SELECT a.ord, a.key, k.held + row_number() OVER line AS place,
               k.free AND bool_and(k.held + a.place
                   <= coalesce(k.set_limit, (a.rules ->> 'key_limit')::integer, 1)) OVER line AS given
        FROM (SELECT u.*, row_number() OVER (
                  PARTITION BY u.key ORDER BY u.priority DESC NULLS LAST, u.ord) AS place
              FROM (SELECT e.kind, e.key, coalesce(e.priority, 0) AS priority, e.rules, e.ord
                    FROM unnest(p_kinds, p_keys, p_priorities, p_rules)
                         WITH ORDINALITY AS e (kind, key, priority, rules, ord)) u
              WHERE u.kind = 'key') a
        JOIN unnest(v_names, v_held, v_free, v_limits) AS k (name, held, free, set_limit)
        ON k.name = a.key
        WINDOW line AS (PARTITION BY a.key ORDER BY a.place)
    ), counted AS (
        SELECT a.key, count(*) FILTER (WHERE a.given)::integer AS given FROM judged a GROUP BY a.key
    ), sure AS (
        SELECT k.name, k.held + c.given AS held
        FROM unnest(v_names, v_held) AS k (name, held) JOIN counted c ON c.key = k.name
    )
    SELECT (SELECT array_agg(CASE WHEN a.given THEN 'turn' ELSE g.kind END ORDER BY g.ord)
            FROM unnest(p_kinds) WITH ORDINALITY AS g (kind, ord)
            LEFT JOIN judged a ON a.ord = g.ord),
           (SELECT array_agg(s.name) FROM sure s), (SELECT array_agg(s.held) FROM sure s)
    INTO kinds, v_names, v_given;
    UPDATE limpet.key k SET held = g.held FROM unnest(v_names, v_given) AS g (name, held)
    WHERE k.name = g.name AND k.name = ANY (v_names) AND k.held <> g.held;
    SELECT array_agg(DISTINCT u.key) INTO joined
    FROM unnest(kinds, p_keys) AS u (kind, key) WHERE u.kind = 'key';
END $$;

-- holder: which job holds a unique, if any (id), and whether that job waits (waits).
CREATE OR REPLACE FUNCTION limpet.v1_holder(
    p_task text, p_name text, p_now bigint, OUT id text, OUT waits boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_held record;
BEGIN
    SELECT s.id, s.until_at, limpet.v1_rules(j.rules) ->> 'unique_until' AS until, p.state INTO v_held
    FROM limpet.single s LEFT JOIN limpet.job j ON j.id = s.id
    LEFT JOIN LATERAL (SELECT w.state FROM limpet.placed w WHERE w.id = s.id OFFSET 0) p ON true
    WHERE s.task = p_task AND s.name = p_name;
    -- A job without a state is just being written by this call.
    waits := v_held.state IS NULL OR v_held.state IN ('scheduled', 'ready', 'blocked');
    id := CASE
        WHEN v_held.until_at <= p_now THEN NULL
        WHEN v_held.until_at IS NOT NULL THEN v_held.id
        WHEN v_held.until = 'started' AND NOT waits THEN NULL
        WHEN v_held.state IN ('succeeded', 'failed', 'cancelled') THEN NULL
        ELSE v_held.id END;
END $$;

-- taken: take a unique for a job, unless another job holds it: then id is the holder, and waits is whether
-- the holder waits. With p_replaces the unique is also taken from a holder.
CREATE OR REPLACE FUNCTION limpet.v1_taken(
    p_task text, p_name text, p_job text, p_until bigint, p_replaces boolean, p_now bigint,
    OUT id text, OUT waits boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    LOOP
        INSERT INTO limpet.single (task, name, id, until_at)
        VALUES (p_task, p_name, p_job, p_until) ON CONFLICT (task, name) DO NOTHING;
        IF FOUND THEN
            RETURN;
        END IF;
        PERFORM FROM limpet.single s WHERE s.task = p_task AND s.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
    SELECT h.id, h.waits INTO id, waits FROM limpet.v1_holder(p_task, p_name, p_now) h;
    IF id = p_job THEN
        id := NULL;
    END IF;
    IF id IS NULL OR p_replaces THEN
        IF id IS NOT NULL AND NOT waits THEN
            id := NULL;              -- a running holder goes on beside the new job
        END IF;
        UPDATE limpet.single s SET id = p_job, until_at = p_until
        WHERE s.task = p_task AND s.name = p_name;
    END IF;
END $$;

-- held_uniques: the jobs that will not be written because their unique is held, and so need no place.
CREATE OR REPLACE FUNCTION limpet.v1_held_uniques(
    p_ids text, p_tasks text, p_uniques text, p_wall bigint)
RETURNS json LANGUAGE sql VOLATILE AS $$
    SELECT json_agg(g.id)
    FROM unnest(limpet.v1_column(p_ids), limpet.v1_column(p_tasks), limpet.v1_column(p_uniques))
         AS g (id, task, name)
    WHERE (limpet.v1_holder(g.task, g.name, limpet.v1_time(p_wall))).id IS NOT NULL
$$;

-- with_parents: check that every parent in p_there waits for its children, and keep it waiting until the
-- commit.
CREATE OR REPLACE FUNCTION limpet.v1_with_parents(
    p_ids text[], p_parents text[], p_there text[], p_no jsonb, p_epoch text, p_flow boolean)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_found text[];
    v_unknown json;
BEGIN
    IF p_epoch IS NULL THEN
        v_found := ARRAY(
            SELECT b.id FROM limpet.parked b
            WHERE b.id = ANY (p_there) AND (b.reason = 'children') IS TRUE
            ORDER BY b.id FOR KEY SHARE);
    ELSE
        v_found := ARRAY(
            SELECT b.id FROM limpet.parked b
            WHERE b.id = ANY (p_there) AND (b.reason = 'children') IS TRUE);
        INSERT INTO limpet.note (kind, what) SELECT 'gone', unnest(v_found);
    END IF;
    IF cardinality(v_found) < cardinality(p_there) AND NOT p_flow THEN
        SELECT json_build_array(g.id, g.parent) INTO v_unknown
        FROM unnest(p_ids, p_parents) WITH ORDINALITY AS g (id, parent, ord)
        WHERE g.parent = ANY (p_there) AND g.parent <> ALL (v_found)
          AND coalesce(p_no -> g.id ->> 0, 'replaces') = 'replaces'
        ORDER BY g.ord LIMIT 1;
        RAISE EXCEPTION '%', v_unknown USING ERRCODE = 'LP006';
    END IF;
END $$;
