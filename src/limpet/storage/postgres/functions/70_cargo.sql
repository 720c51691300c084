-- cargo: write jobs as they were in another store.
-- purpose: adopt: (nothing) to the state that each job had; a job that exists stays as it is.
--          furnish: pause queues, set totals (all other settings: cargo.sql).
--          discard: any state to (nothing).
--          Each only at its stage of the move.
-- params:  p_move: the id of the move.
--          p_jobs, p_events, p_lines: JSON lists.
--          p_cursor: up to where the cargo goes.
--          p_manifest: the manifest as JSON.
-- returns: adopt: how many jobs are new.
--          discard: how many jobs were removed.
-- errors:  LP004 where the store takes no cargo of that move.

CREATE OR REPLACE FUNCTION limpet.v1_at_stage(p_stage text, p_move text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('limpet.move', 0));
    PERFORM FROM limpet.store s
    WHERE s.closed = p_stage AND s.relocation::json ->> 'id' = p_move FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no cargo is taken' USING ERRCODE = 'LP004';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_adopt(
    p_move text, p_jobs json, p_events json, p_lines json, p_cursor text)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_fresh text[];
    v_last bigint;
BEGIN
    PERFORM limpet.v1_at_stage('arriving', p_move);
    WITH given AS (
        SELECT * FROM json_to_recordset(p_jobs) AS g (
            number bigint, id text, tail bigint, task text, queue text, state text,
            priority integer, ready_at bigint, suspect boolean, last_run boolean, round integer,
            token bigint, session text, failures integer, orphans integer, strikes integer,
            created_at bigint, claimed_at bigint, finished_at bigint, cancel_requested_at bigint,
            expires_at bigint, deadline_at bigint, key text, "unique" text, parent text, root text,
            weight_class text, payload_version integer, args text, options text, secrets text,
            result text, result_secrets text, error text, reason text, what text,
            progress_token bigint, done double precision, total double precision, note text,
            progress_at bigint, rules text, pending integer, relaunch_at bigint, turn boolean)
    ), fresh AS (
        INSERT INTO limpet.job (
            id, n, tail, task, queue, priority, created_at, expires_at, deadline_at, key,
            unique_key, parent, root, weight_class, payload_version, args, options, secrets, rules)
        SELECT id, number, tail, task, queue, priority, created_at, expires_at, deadline_at, key,
               "unique", parent, root, weight_class, payload_version, args, options, secrets, rules
        FROM given ON CONFLICT (id) DO NOTHING
        RETURNING id
    ), come AS (
        SELECT g.*, g.ready_at - g.priority * 60000000::bigint AS sort_key,
               g.key IS NOT NULL OR g.parent IS NOT NULL AS shaped
        FROM given g JOIN fresh f ON f.id = g.id
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, number, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               shaped
        FROM come WHERE state = 'ready'
    ), parked AS (
        INSERT INTO limpet.parked
        SELECT id, number, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               state, reason,
               CASE reason WHEN 'key' THEN limpet.v1_line_place(key, sort_key, number) ELSE what END,
               CASE WHEN reason IS NOT NULL THEN ready_at END, shaped, coalesce(pending, 0),
               state = 'scheduled' AND coalesce(turn, false)
        FROM come WHERE state IN ('scheduled', 'blocked', 'quarantined')
    ), done AS (
        INSERT INTO limpet.done
        SELECT id, number, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               state, finished_at, cancel_requested_at, result, result_secrets
        FROM come WHERE state IN ('succeeded', 'failed', 'cancelled')
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error) SELECT id, error FROM come WHERE error IS NOT NULL
    ), progress AS (
        INSERT INTO limpet.progress (id, token, done, total, note, at)
        SELECT id, progress_token, done, total, note, progress_at FROM come
        WHERE progress_token IS NOT NULL
    ), family AS (
        INSERT INTO limpet.child (parent, n, id)
        SELECT parent, number, id FROM come WHERE parent IS NOT NULL
    ), again AS (
        INSERT INTO limpet.relaunch (id, at)
        SELECT id, relaunch_at FROM come WHERE relaunch_at IS NOT NULL
    ), keys AS (
        -- Turns are counted anew; the first promote or exchange gives the free ones.
        INSERT INTO limpet.key AS k (name, held, rated)
        SELECT key, count(*) FILTER (WHERE state = 'ready' OR (state = 'scheduled' AND turn)),
               bool_or(limpet.v1_rules(rules) -> 'key_rate' IS NOT NULL)
        FROM come
        WHERE key IS NOT NULL AND state IN ('scheduled', 'ready', 'blocked') GROUP BY key
        ON CONFLICT (name) DO UPDATE
        SET held = k.held + excluded.held, most = greatest(k.most, excluded.most),
            rated = k.rated OR excluded.rated
    ), waiting AS (
        INSERT INTO limpet.note (kind, what) SELECT DISTINCT 'key', key FROM come WHERE reason = 'key'
    ), singles AS (
        -- The newest job holds the unique; a finished job only where all are finished.
        INSERT INTO limpet.single AS s (task, name, id, until_at)
        SELECT DISTINCT ON (task, "unique") task, "unique", id,
               CASE WHEN limpet.v1_rules(rules) ->> 'unique_until' = 'time'
                    THEN created_at + (limpet.v1_rules(rules) ->> 'unique_for')::bigint END
        FROM come WHERE "unique" IS NOT NULL
        ORDER BY task, "unique", finished_at IS NULL DESC, number DESC
        ON CONFLICT (task, name) DO UPDATE SET id = excluded.id, until_at = excluded.until_at
        WHERE EXISTS (SELECT FROM limpet.done d WHERE d.id = s.id)
    ), counted AS (
        -- Counts jobs, but no moves: this store has not made them.
        INSERT INTO limpet.tally (queue, move, source, target, jobs)
        SELECT queue, '', NULL, state, count(*) FROM come GROUP BY queue, state
    )
    SELECT array_agg(id), max(number) INTO v_fresh, v_last FROM come;
    IF v_fresh IS NOT NULL THEN
        INSERT INTO limpet.event (id, at, event, session, token, cause, claimed_at, settled)
        SELECT e.value ->> 0, (e.value ->> 1)::bigint, e.value ->> 2, e.value ->> 3,
               (e.value ->> 4)::bigint, e.value ->> 5, (e.value ->> 6)::bigint, e.value ->> 7
        FROM json_array_elements(p_events) WITH ORDINALITY AS e (value, place)
        JOIN unnest(v_fresh) AS f (id) ON f.id = e.value ->> 0
        ORDER BY e.place;
        INSERT INTO limpet.log (id, at, level, message)
        SELECT e.value ->> 0, (e.value ->> 1)::bigint, e.value ->> 2, e.value ->> 3
        FROM json_array_elements(p_lines) WITH ORDINALITY AS e (value, place)
        JOIN unnest(v_fresh) AS f (id) ON f.id = e.value ->> 0
        ORDER BY e.place;
        -- New jobs get higher numbers than the jobs that have arrived.
        PERFORM setval('limpet.line', greatest(v_last, (SELECT last_value FROM limpet.line)));
    END IF;
    UPDATE limpet.store SET cursor = p_cursor;
    RETURN coalesce(cardinality(v_fresh), 0);
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_furnish(p_move text, p_manifest json) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM limpet.v1_at_stage('arriving', p_move);
    DELETE FROM limpet.tally WHERE source IS NULL AND target IS NULL;
    -- Moves that this store counted before are not moves of these jobs.
    UPDATE limpet.tally SET move = '' WHERE move <> '';
    INSERT INTO limpet.tally (queue, move, source, target, jobs)
    SELECT t.value ->> 0, t.value ->> 1, NULL, NULL, (t.value ->> 2)::bigint
    FROM json_array_elements(p_manifest -> 'totals') t;
    INSERT INTO limpet.tally (queue, move, source, target, jobs)
    SELECT q.value, '', NULL, 'ready', 0
    FROM json_array_elements_text(p_manifest -> 'queues') q;
    DELETE FROM limpet.queue;
    INSERT INTO limpet.queue (name, paused)
    SELECT q.value, true FROM json_array_elements_text(p_manifest -> 'paused') q;
    PERFORM pg_notify('limpet.ready', '');
    PERFORM pg_notify('limpet.done', '');
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_discard(p_move text) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids text[];
BEGIN
    PERFORM limpet.v1_at_stage('emptying', p_move);
    v_ids := ARRAY(SELECT id FROM limpet.job ORDER BY id LIMIT 1000);
    IF cardinality(v_ids) = 0 THEN
        DELETE FROM limpet.tally;
    END IF;
    UPDATE limpet.key k SET held = k.held - g.turns
    FROM (SELECT j.key, count(*) AS turns FROM limpet.placed p JOIN limpet.job j ON j.id = p.id
          WHERE p.id = ANY (v_ids) AND p.turn AND j.key IS NOT NULL GROUP BY j.key) g
    WHERE k.name = g.key;
    INSERT INTO limpet.tally (queue, move, source, target, jobs)
    SELECT queue, '', state, NULL, count(*) FROM limpet.placed WHERE id = ANY (v_ids)
    GROUP BY queue, state;
    DELETE FROM limpet.ready WHERE id = ANY (v_ids);
    DELETE FROM limpet.parked WHERE id = ANY (v_ids);
    DELETE FROM limpet.done WHERE id = ANY (v_ids);
    DELETE FROM limpet.trouble WHERE id = ANY (v_ids);
    DELETE FROM limpet.event WHERE id = ANY (v_ids);
    DELETE FROM limpet.progress WHERE id = ANY (v_ids);
    DELETE FROM limpet.log WHERE id = ANY (v_ids);
    DELETE FROM limpet.relaunch WHERE id = ANY (v_ids);
    DELETE FROM limpet.single WHERE id = ANY (v_ids);
    DELETE FROM limpet.child c USING limpet.job j
    WHERE j.id = ANY (v_ids) AND c.parent = j.parent AND c.n = j.n;
    DELETE FROM limpet.job WHERE id = ANY (v_ids);
    IF cardinality(v_ids) < 1000 THEN
        DELETE FROM limpet.key;
        DELETE FROM limpet.note;
        DELETE FROM limpet.breaker;
        DELETE FROM limpet.queue;
        DELETE FROM limpet.schedule;
    END IF;
    RETURN cardinality(v_ids);
END $$;
