-- due: move what has become due.
-- purpose: due: scheduled to ready, or to blocked where the job waits for its key, at most 1,000; gives turns
--          of keys whose rate allows some again; folds the tally.
--          lapse: waiting to cancelled or failed for jobs that are too late, as p_moves decides.
--          relaunch: failed to ready, in a new round.
--          remove: a final state to (nothing), with everything that is kept about the job.
-- params:  p_now: the wall time.
--          lapse: p_moves: a JSON list of moves.
--          remove: p_state, p_finished_before, p_created_before: which jobs.
--                  p_limit: the most to remove.
--                  p_queue: only this queue, or NULL.
--                  p_others: a column of queues to leave out.
-- returns: due, relaunch: taken: how many jobs were handled; 1,000 means that more may be due.
--                         ready: how many became ready.
--          lapse, remove: how many jobs.

CREATE OR REPLACE FUNCTION limpet.v1_due(p_now bigint, OUT taken integer, OUT ready integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_joined text[];
    v_keys text[];
    v_given integer := 0;
BEGIN
    PERFORM limpet.v1_pass(false);
    WITH gone AS (
        DELETE FROM limpet.parked
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM limpet.parked
            WHERE state = 'scheduled' AND ready_at <= p_now
              AND (LEAST(expires_at, deadline_at) > p_now
                   OR LEAST(expires_at, deadline_at) IS NULL)
            ORDER BY ready_at LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    ), due AS (
        -- A job that kept its turn needs none.
        SELECT g.*, k.key FROM gone g LEFT JOIN LATERAL (
            SELECT j.key FROM limpet.job j WHERE g.shaped AND NOT g.turn AND j.id = g.id OFFSET 0) k
        ON true
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               shaped
        FROM due WHERE key IS NULL
    ), waiting AS (
        INSERT INTO limpet.parked
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               'blocked', 'key', limpet.v1_line_place(key, sort_key, n), p_now, shaped
        FROM due WHERE key IS NOT NULL
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'promote', 'scheduled', CASE WHEN key IS NULL THEN 'ready' ELSE 'blocked' END,
               count(*)
        FROM due GROUP BY queue, key IS NULL
    )
    SELECT count(*), count(*) FILTER (WHERE key IS NULL), array_agg(id) FILTER (WHERE key IS NOT NULL)
    INTO taken, ready, v_joined FROM due;
    IF v_joined IS NOT NULL THEN
        v_keys := limpet.v1_expect_jobs(v_joined, NULL);
    END IF;
    v_keys := ARRAY(
        SELECT unnest(v_keys) UNION
        SELECT l.name FROM (
            SELECT k.name FROM limpet.key k WHERE k.next_at <= p_now
            ORDER BY k.next_at LIMIT 1000 FOR UPDATE SKIP LOCKED) l);
    IF cardinality(v_keys) > 0 THEN
        v_given := limpet.v1_turns(v_keys, array_fill(0, ARRAY[cardinality(v_keys)]), p_now);
        ready := ready + v_given;
        taken := greatest(taken, v_given);
    END IF;
    IF ready > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
    PERFORM limpet.v1_fold(20000);
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_lapse(p_moves jsonb, p_now bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_moved integer;
    v_followed record;
    v_after record;
BEGIN
    PERFORM limpet.v1_pass(false);
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_moves)
        AS m (id text, target text, event text, cause text)
    ), gone AS (
        DELETE FROM limpet.ready r WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m)) RETURNING r.*
    ), gone_parked AS (
        DELETE FROM limpet.parked r WHERE r.id = ANY (ARRAY(SELECT m.id FROM given m))
        RETURNING r.id, r.n, r.tail, r.queue, r.task, r.priority, r.sort_key, r.ready_at, r.round,
                  r.token, r.failures, r.orphans, r.strikes, r.suspect, r.last_run, r.expires_at,
                  r.deadline_at, r.session, r.claimed_at, r.shaped, r.state, r.turn,
                  coalesce(r.reason = 'children', false) AS alone
    ), late AS (
        SELECT *, 'ready' AS state, shaped AS turn, false AS alone FROM gone
        UNION ALL SELECT * FROM gone_parked
    ), done AS (
        INSERT INTO limpet.done
        SELECT l.id, l.n, l.tail, l.queue, l.task, l.priority, l.sort_key, l.ready_at, l.round,
               l.token, l.failures, l.orphans, l.strikes, l.suspect, l.last_run, l.expires_at,
               l.deadline_at, l.session, l.claimed_at, m.target, p_now
        FROM late l JOIN given m ON m.id = l.id
    ), events AS (
        INSERT INTO limpet.event (id, at, event, cause)
        SELECT m.id, p_now, m.event, m.cause FROM late l JOIN given m ON m.id = l.id ORDER BY l.n
    ), wrong AS (
        INSERT INTO limpet.trouble (id, error)
        SELECT m.id, m.cause FROM late l JOIN given m ON m.id = l.id
        ON CONFLICT (id) DO UPDATE SET error = excluded.error
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT l.queue, 'expire', l.state, m.target, count(*)
        FROM late l JOIN given m ON m.id = l.id GROUP BY l.queue, l.state, m.target
    )
    SELECT count(*) AS number, array_agg(l.id) FILTER (WHERE l.shaped OR l.alone) AS ids,
           array_agg(m.target) FILTER (WHERE l.shaped OR l.alone) AS targets,
           array_agg(l.turn) FILTER (WHERE l.shaped OR l.alone) AS turns,
           array_agg(l.alone) FILTER (WHERE l.shaped OR l.alone) AS alone
    INTO v_followed FROM late l JOIN given m ON m.id = l.id;
    v_moved := v_followed.number;
    IF v_followed.ids IS NOT NULL THEN
        SELECT * INTO v_after FROM limpet.v1_after(
            v_followed.ids, v_followed.targets, v_followed.turns, v_followed.alone, NULL, false,
            p_now);
        IF v_after.moved > 0 THEN
            PERFORM pg_notify('limpet.ready', '');
        END IF;
    END IF;
    IF v_moved > 0 THEN
        PERFORM pg_notify('limpet.done', '');
    END IF;
    RETURN v_moved;
END $$;

-- free_unique: lock the unique of a job, unless another transaction has it locked; whether it did.
CREATE OR REPLACE FUNCTION limpet.v1_free_unique(p_job text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM limpet.single s
    WHERE (s.task, s.name) = (SELECT j.task, j.unique_key FROM limpet.job j WHERE j.id = p_job)
    FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_relaunch(p_now bigint, OUT taken integer, OUT ready integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids text[];
    v_keys text[];
    v_job record;
BEGIN
    PERFORM limpet.v1_pass(false);
    taken := 0;
    ready := 0;
    v_ids := ARRAY(
        SELECT r.id FROM limpet.relaunch r JOIN limpet.done d ON d.id = r.id
        WHERE r.at <= p_now ORDER BY r.at LIMIT 1000
        FOR UPDATE OF r, d SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN
        RETURN;
    END IF;
    -- Uniques that no job holds, before the keys; see turns.
    INSERT INTO limpet.single (task, name, id)
    SELECT j.task, j.unique_key, j.id FROM limpet.job j
    WHERE j.id = ANY (v_ids) AND j.unique_key IS NOT NULL AND NOT EXISTS (
        SELECT FROM limpet.single s WHERE s.task = j.task AND s.name = j.unique_key)
    ORDER BY j.task, j.unique_key COLLATE "C" ON CONFLICT (task, name) DO NOTHING;
    v_keys := limpet.v1_free_keys(ARRAY(
        SELECT DISTINCT j.key FROM limpet.job j
        WHERE j.id = ANY (v_ids) AND j.key IS NOT NULL), true);
    FOR v_job IN
        SELECT g.id, j.key, j.unique_key, EXISTS (
                   SELECT FROM limpet.done a
                   WHERE a.id = j.parent AND a.state IN ('failed', 'cancelled')) AS gone
        FROM unnest(v_ids) WITH ORDINALITY AS g (id, place) JOIN limpet.job j ON j.id = g.id
        ORDER BY g.place
    LOOP
        -- Jobs whose rows others have locked are left to the next call; so are jobs that must give a turn
        -- back first.
        CONTINUE WHEN (v_job.key IS NOT NULL AND v_job.key <> ALL (v_keys))
            OR EXISTS (SELECT FROM limpet.note o WHERE o.kind = 'ended' AND o.what = v_job.id)
            OR (v_job.unique_key IS NOT NULL AND NOT limpet.v1_free_unique(v_job.id));
        taken := taken + 1;
        IF v_job.gone THEN
            -- The child of a parent that is gone is not relaunched.
            DELETE FROM limpet.relaunch WHERE id = v_job.id;
        ELSIF limpet.v1_reopen(v_job.id, 'relaunched', p_now) = 'ready' THEN
            ready := ready + 1;
        END IF;
    END LOOP;
    IF ready > 0 THEN
        PERFORM pg_notify('limpet.ready', '');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_remove(
    p_state text, p_finished_before bigint, p_created_before bigint, p_limit integer, p_queue text,
    p_others text, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_ids text[];
    v_held text[];
    v_others text[] := coalesce(limpet.v1_column(p_others), '{}');
BEGIN
    PERFORM limpet.v1_pass(false);
    v_ids := ARRAY(
        SELECT d.id FROM limpet.done d JOIN limpet.job j ON j.id = d.id
        WHERE d.state = p_state AND d.finished_at < p_finished_before
          AND j.created_at < p_created_before
          AND (p_queue IS NULL OR d.queue = p_queue) AND d.queue <> ALL (v_others)
          AND (j.parent IS NULL OR NOT EXISTS (SELECT FROM limpet.job a WHERE a.id = j.parent)
               OR EXISTS (SELECT FROM limpet.done a WHERE a.id = j.parent))
          -- A job that holds its unique for a time stays until that time is over.
          AND (j.unique_key IS NULL OR NOT EXISTS (
                   SELECT FROM limpet.single s WHERE s.task = j.task AND s.name = j.unique_key
                     AND s.id = j.id AND s.until_at > p_now))
        ORDER BY d.finished_at LIMIT p_limit FOR UPDATE OF d SKIP LOCKED);
    -- Without jobs whose unique another transaction has locked.
    v_held := ARRAY(SELECT s.id FROM limpet.single s WHERE s.id = ANY (v_ids) FOR UPDATE SKIP LOCKED);
    v_ids := ARRAY(SELECT unnest(v_ids) EXCEPT
                   SELECT s.id FROM limpet.single s
                   WHERE s.id = ANY (v_ids) AND s.id <> ALL (v_held));
    IF cardinality(v_ids) = 0 THEN
        RETURN 0;
    END IF;
    INSERT INTO limpet.tally
    SELECT queue, 'prune', p_state, NULL, count(*) FROM limpet.done WHERE id = ANY (v_ids)
    GROUP BY queue;
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
    RETURN cardinality(v_ids);
END $$;
