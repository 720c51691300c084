-- turns: which jobs of a key may be under way.
-- purpose: turns: take turns back, and give free turns to the jobs that wait, in order: blocked to ready.
--          notes: finish what earlier transactions left as notes (see the table note).
-- params:  turns: p_keys: keys, each once, locked by this transaction.
--                 p_back: how many turns of each key are given back.
--                 p_now: the wall time.
-- returns: turns: how many jobs became ready.
-- why:     a row of parked that another transaction has locked is skipped: that transaction locks the key
--          after it has changed the row, and gives the turn.
-- locks:   every writer locks rows in this order, and never waits for a row that comes before one that it
--          has locked:
--            1. uniques, by task and name (admit, retry, relaunch)
--            2. the jobs of the verb itself, by id: running (exchange, release, recover), waiting (cancel,
--               requeue, repair, and admit for the jobs that it replaces), done (retry)
--            3. parents that wait for children, by id (after, admit)
--            4. keys, by name, all in one step (keys below; give_turns; expect for due, retry, repair)
--            5. queues, by name (claim)
--          So a transaction that has locked a key waits for no job and no other key, and whoever waits for
--          a key gets it soon. Rows that are found only after that (the line of a key, the children of a
--          parent that is gone, the parent of a parent, the turn of a replaced job, notes, jobs whose task
--          nobody knows) are locked only if they are free (SKIP LOCKED); what is not free is left: as a
--          note, or where it is. Promote is several transactions, so that each locks its keys in one step.
--          Two cases that broke this order: an exchange had key a and wanted the parent, while a cancel
--          of the parent had the parent and wanted key a. A promote had key b for jobs that were due and
--          wanted key a for jobs to relaunch, while an enqueue had a and wanted b. The server ended one of
--          the two after a second.

-- keys: lock keys, each once; missing keys are created.
CREATE OR REPLACE FUNCTION limpet.v1_keys(p_keys text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- One statement for existing and missing keys: locking the existing keys first, and then creating the
    -- others, would lock them in another order.
    INSERT INTO limpet.key AS k (name, held)
    SELECT g.name, 0 FROM unnest(p_keys) AS g (name) ORDER BY g.name COLLATE "C"
    ON CONFLICT (name) DO UPDATE SET held = k.held WHERE false;
    RETURN p_keys;
END $$;

-- free_keys: lock the keys that no other transaction has locked, and return them. With p_new missing keys
-- are created; that waits for a transaction that creates the same key, so use p_new only where this
-- transaction has locked no key yet.
CREATE OR REPLACE FUNCTION limpet.v1_free_keys(p_keys text[], p_new boolean) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_new THEN
        INSERT INTO limpet.key (name, held, most)
        SELECT g.name, 0, 1 FROM unnest(p_keys) AS g (name)
        WHERE NOT EXISTS (SELECT FROM limpet.key k WHERE k.name = g.name)
        ORDER BY g.name COLLATE "C" ON CONFLICT (name) DO NOTHING;
    END IF;
    RETURN ARRAY(SELECT k.name FROM limpet.key k WHERE k.name = ANY (p_keys)
                 ORDER BY k.name FOR UPDATE SKIP LOCKED);
END $$;

-- line_place: the column `what` of a job that waits for its key: the key, and its place in the line.
CREATE OR REPLACE FUNCTION limpet.v1_line_place(p_key text, p_sort_key bigint, p_n bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_key || E'\x1e' || (p_sort_key + 4611686018427387904)::text || lpad(p_n::text, 19, '0')
$$;

-- expect_jobs: jobs have joined the lines of their keys. Write the highest limit of these jobs, and whether
-- one has a rate, into each key, for turns. Needed for every job that does not come through admit, because
-- a key that nobody used has been deleted. The keys are locked by it.
-- `p_held`: keys that are locked already: only these are written, and notes are left for the others.
--           NULL: write all keys, and wait for their locks.
-- Returns the keys that were written.
CREATE OR REPLACE FUNCTION limpet.v1_expect_jobs(p_ids text[], p_held text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_known record;
BEGIN
    WITH demand AS (
        SELECT j.key, max(coalesce((limpet.v1_rules(j.rules) ->> 'key_limit')::integer, 1)) AS most,
               bool_or(limpet.v1_rules(j.rules) -> 'key_rate' IS NOT NULL) AS rated
        FROM limpet.job j WHERE j.id = ANY (p_ids) AND j.key IS NOT NULL GROUP BY j.key
    ), later AS (
        INSERT INTO limpet.note (kind, what, most, rated)
        SELECT 'key', a.key, a.most, a.rated FROM demand a WHERE a.key <> ALL (p_held)
    )
    SELECT array_agg(a.key) AS keys, array_agg(a.most) AS most, array_agg(a.rated) AS rated
    INTO v_known FROM demand a WHERE p_held IS NULL OR a.key = ANY (p_held);
    RETURN limpet.v1_expect(v_known.keys, v_known.most, v_known.rated);
END $$;

-- expect: the same for given limits and rates. A limit of NULL stands for an unknown one, and counts as the
-- highest.
CREATE OR REPLACE FUNCTION limpet.v1_expect(p_keys text[], p_most integer[], p_rated boolean[])
RETURNS text[] LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO limpet.key AS k (name, held, most, rated)
    SELECT g.name, 0, coalesce(g.most, 1000), g.rated
    FROM unnest(p_keys, p_most, p_rated) AS g (name, most, rated) ORDER BY g.name COLLATE "C"
    ON CONFLICT (name) DO UPDATE
    SET most = greatest(k.most, excluded.most), rated = k.rated OR excluded.rated
    WHERE k.most < excluded.most OR (excluded.rated AND NOT k.rated);
    RETURN p_keys;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_turns(p_keys text[], p_back integer[], p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_rated boolean := (SELECT bool_or(k.rated) FROM limpet.key k WHERE k.name = ANY (p_keys));
    v_moved integer;
    v_key record;
BEGIN
    WITH known AS (
        SELECT k.name, k.held - g.back AS held, k.most, k.set_limit
        FROM limpet.key k JOIN unnest(p_keys, p_back) AS g (name, back) ON g.name = k.name
        WHERE k.name = ANY (p_keys) AND NOT k.rated
    ), first AS (
        SELECT k.name, w.id, w.place AS row, k.set_limit,
               k.held + row_number() OVER (PARTITION BY k.name ORDER BY w.what) AS place
        FROM known k CROSS JOIN LATERAL (
            SELECT b.id, b.what, b.ctid AS place FROM limpet.parked b
            WHERE b.state = 'blocked' AND b.reason = 'key'
              AND b.what > k.name || E'\x1e' AND b.what < k.name || E'\x1f'
            ORDER BY b.what
            LIMIT least(greatest(coalesce(k.set_limit, k.most) - k.held, 0), 1000)
            FOR UPDATE SKIP LOCKED) w
    ), judged AS (
        -- The first turn is within every limit, so the rules of its job need not be read.
        SELECT f.row, bool_and(f.place = 1 OR f.place <= coalesce(
                   f.set_limit, (limpet.v1_rules(j.rules) ->> 'key_limit')::integer, 1))
                   OVER (PARTITION BY f.name ORDER BY f.place) AS given
        FROM first f LEFT JOIN LATERAL (
            SELECT o.rules FROM limpet.job o WHERE f.place > 1 AND o.id = f.id OFFSET 0) j ON true
    ), gone AS (
        DELETE FROM limpet.parked WHERE ctid = ANY (ARRAY(
            SELECT a.row FROM judged a WHERE a.given LIMIT 1000))
        RETURNING *
    ), ready AS (
        INSERT INTO limpet.ready
        SELECT id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
               orphans, strikes, suspect, last_run, expires_at, deadline_at, session, claimed_at,
               true
        FROM gone
    ), counted AS (
        INSERT INTO limpet.tally
        SELECT queue, 'unblock', 'blocked', 'ready', count(*) FROM gone GROUP BY queue
    ), given AS (
        SELECT split_part(what, E'\x1e', 1) AS name, count(*) AS turns FROM gone GROUP BY 1
    ), after AS (
        SELECT k.name, k.held + coalesce(g.turns, 0) AS held, w.name IS NOT NULL AS waited
        FROM known k LEFT JOIN given g ON g.name = k.name
        LEFT JOIN (SELECT DISTINCT f.name FROM first f) w ON w.name = k.name
    ), kept AS (
        UPDATE limpet.key k SET held = a.held FROM after a
        WHERE k.name = a.name AND k.name = ANY (p_keys) AND k.held <> a.held
          AND (a.held > 0 OR a.waited OR k.set_limit IS NOT NULL)
    ), dropped AS (
        DELETE FROM limpet.key k USING after a
        WHERE k.name = a.name AND k.name = ANY (p_keys)
          AND a.held = 0 AND NOT a.waited AND k.set_limit IS NULL
    )
    SELECT count(*) INTO v_moved FROM gone;
    IF v_rated THEN
        FOR v_key IN
            SELECT k.*, g.back
            FROM limpet.key k JOIN unnest(p_keys, p_back) AS g (name, back) ON g.name = k.name
            WHERE k.name = ANY (p_keys) AND k.rated
        LOOP
            v_moved := v_moved + limpet.v1_rated_turns(v_key.name, v_key.back, 1000 - v_moved, p_now);
        END LOOP;
    END IF;
    RETURN v_moved;
END $$;

-- rated_turns: as turns, for one locked key that has a rate: one job after the other, at most p_limit.
CREATE OR REPLACE FUNCTION limpet.v1_rated_turns(
    p_key text, p_back integer, p_limit integer, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_key limpet.key;
    v_job record;
    v_rate json;
    v_step bigint;
    v_moved integer := 0;
BEGIN
    SELECT * INTO v_key FROM limpet.key k WHERE k.name = p_key;
    v_key.held := v_key.held - p_back;
    v_key.next_at := NULL;
    LOOP
        SELECT b.*, j.rules INTO v_job FROM limpet.parked b JOIN limpet.job j ON j.id = b.id
        WHERE b.state = 'blocked' AND b.reason = 'key'
          AND b.what > p_key || E'\x1e' AND b.what < p_key || E'\x1f'
        ORDER BY b.what LIMIT 1
        FOR UPDATE OF b SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        EXIT WHEN v_key.held
            >= coalesce(v_key.set_limit, (limpet.v1_rules(v_job.rules) ->> 'key_limit')::integer, 1);
        IF v_moved >= p_limit THEN
            v_key.next_at := p_now;
            EXIT;
        END IF;
        v_rate := coalesce(limpet.v1_rate(v_key.set_rate), limpet.v1_rules(v_job.rules) -> 'key_rate');
        IF v_rate IS NOT NULL THEN
            -- As in domain/rate.py.
            v_step := ((v_rate ->> 1)::bigint + (v_rate ->> 0)::bigint - 1) / (v_rate ->> 0)::bigint;
            IF p_now + (v_rate ->> 2)::bigint * v_step - greatest(v_key.given_until, p_now)
               < v_step THEN
                v_key.next_at := greatest(
                    p_now, v_key.given_until - ((v_rate ->> 2)::bigint - 1) * v_step);
                EXIT;
            END IF;
            v_key.given_until := greatest(v_key.given_until, p_now) + v_step;
        END IF;
        DELETE FROM limpet.parked WHERE id = v_job.id;
        INSERT INTO limpet.ready
        VALUES (v_job.id, v_job.n, v_job.tail, v_job.queue, v_job.task, v_job.priority,
                v_job.sort_key, v_job.ready_at, v_job.round, v_job.token, v_job.failures,
                v_job.orphans, v_job.strikes, v_job.suspect, v_job.last_run, v_job.expires_at,
                v_job.deadline_at, v_job.session, v_job.claimed_at, true);
        INSERT INTO limpet.tally VALUES (v_job.queue, 'unblock', 'blocked', 'ready', 1);
        v_key.held := v_key.held + 1;
        v_moved := v_moved + 1;
    END LOOP;
    UPDATE limpet.key k
    SET held = v_key.held, given_until = v_key.given_until, next_at = v_key.next_at
    WHERE k.name = p_key;
    RETURN v_moved;
END $$;

-- notes: finish what earlier transactions left as notes. Notes whose rows others have locked stay for the
-- next call. `p_first`: this transaction has locked no key yet.
-- moved: how many jobs became ready. more: whether to call it again soon.
CREATE OR REPLACE FUNCTION limpet.v1_notes(
    p_now bigint, p_first boolean, OUT moved integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_keys text[];
    v_note record;
    v_after record;
    v_seen integer := 0;
BEGIN
    PERFORM limpet.v1_pass(false);
    moved := 0;
    v_keys := ARRAY(SELECT DISTINCT l.what FROM (
        SELECT o.what FROM limpet.note o WHERE o.kind = 'key' ORDER BY o.e LIMIT 1000) l);
    IF cardinality(v_keys) > 0 THEN
        v_keys := limpet.v1_free_keys(v_keys, p_first);
        WITH taken AS (
            DELETE FROM limpet.note WHERE ctid = ANY (ARRAY(
                SELECT o.ctid FROM limpet.note o WHERE o.kind = 'key' AND o.what = ANY (v_keys)
                ORDER BY o.e LIMIT 10000 FOR UPDATE SKIP LOCKED))
            RETURNING what, coalesce(most, 1000) AS most, rated
        )
        SELECT array_agg(g.what) AS keys, array_agg(g.most) AS most, array_agg(g.rated) AS rated
        INTO v_note
        FROM (SELECT t.what, max(t.most) AS most, bool_or(t.rated) AS rated FROM taken t
              GROUP BY t.what) g;
        PERFORM limpet.v1_expect(v_note.keys, v_note.most, v_note.rated);
        v_seen := cardinality(v_keys);
        moved := limpet.v1_turns(v_keys, array_fill(0, ARRAY[v_seen]), p_now);
    END IF;
    WITH taken AS (
        DELETE FROM limpet.note WHERE ctid = ANY (ARRAY(
            SELECT o.ctid FROM limpet.note o WHERE o.kind <> 'key'
            ORDER BY o.e LIMIT 1000 FOR UPDATE SKIP LOCKED))
        RETURNING *
    )
    SELECT array_agg(t.what) FILTER (WHERE t.kind = 'ended') AS ids,
           array_agg(d.state::text) FILTER (WHERE t.kind = 'ended') AS targets,
           array_agg(t.turn) FILTER (WHERE t.kind = 'ended') AS turns,
           array_agg(t.alone) FILTER (WHERE t.kind = 'ended') AS alone,
           array_agg(t.what) FILTER (WHERE t.kind = 'gone') AS gone, count(*) AS number
    INTO v_note
    FROM taken t JOIN limpet.done d ON d.id = t.what
    WHERE t.kind = 'ended' OR d.state IN ('failed', 'cancelled');
    more := false;
    IF v_note.number > 0 THEN
        SELECT * INTO v_after FROM limpet.v1_after(
            v_note.ids, v_note.targets, v_note.turns, v_note.alone, v_note.gone, false, p_now);
        moved := moved + v_after.moved;
    END IF;
    more := v_seen > 0 AND EXISTS (SELECT FROM limpet.note)
        OR EXISTS (SELECT FROM limpet.note o WHERE o.kind = 'gone');
END $$;
