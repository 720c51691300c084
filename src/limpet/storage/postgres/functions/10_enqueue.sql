-- enqueue: write new jobs.
-- purpose: (nothing) to ready or scheduled; a job that exists stays as it is. For plain jobs, without
--          rules, key, unique and parent; the others go through admit.
-- params:  p_ids to p_versions: a column for each field of NewJob, each id once; NULL for a field that no
--          job fills; one value of task, queue or options where all jobs have the same.
--          p_wall: the wall time, or NULL.
--          p_epoch: the epoch of the store that is meant, in a transaction of the user's own; or NULL.
--          p_fenced: a running job enqueues.
--          p_again: an earlier try may have written some of the jobs.
--          p_ring: ring with the commit, if no other commit is just ringing.
-- returns: one row.
--          at: the time of the write.
--          known: the jobs that existed before, as JSON of ids and states.
--          rung: whether the caller need not ring any more.
-- errors:  LP005 where one of the queues takes in no new jobs; admit finds out which.
--          unique_violation where a job exists and p_again is false: looking for each job before it is
--          written costs a fifth more, and a repeat is rare. The caller repeats it with p_again.

CREATE OR REPLACE FUNCTION limpet.v1_enqueue(
    p_ids text, p_tails text, p_tasks text, p_queues text, p_args text, p_options text,
    p_secrets text, p_priorities text, p_scheduled text, p_expires text, p_deadlines text,
    p_keys text, p_uniques text, p_parents text, p_roots text, p_weights text, p_versions text,
    p_wall bigint, p_epoch text, p_fenced boolean, p_again boolean,
    p_ring boolean, OUT at bigint, OUT known json, OUT rung boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_there text[] := '{}';
    v_task text := (limpet.v1_column(p_tasks))[1];
    v_queue text := (limpet.v1_column(p_queues))[1];
    v_options text := (limpet.v1_column(p_options))[1];
    v_fresh bigint;
    v_ready bigint;
    v_last bigint;
BEGIN
    PERFORM limpet.v1_pass(NOT p_fenced);
    IF p_epoch IS NOT NULL THEN
        -- A transaction with an old snapshot would not see that the store has been closed since; with the
        -- lock the server refuses it.
        PERFORM FROM limpet.store FOR SHARE;
    END IF;
    at := limpet.v1_time(p_wall);
    IF p_epoch IS NOT NULL AND p_epoch <> (SELECT epoch FROM limpet.store) THEN
        RAISE EXCEPTION 'another store' USING ERRCODE = 'LP002';
    END IF;
    IF NOT p_fenced AND EXISTS (
        SELECT FROM limpet.queue q
        WHERE q.draining AND q.name = ANY (limpet.v1_column(p_queues))) THEN
        RAISE EXCEPTION 'a queue takes in no new jobs' USING ERRCODE = 'LP005';
    END IF;
    IF p_again THEN
        SELECT coalesce(array_agg(j.id), '{}') INTO v_there FROM limpet.job j
        WHERE j.id = ANY (limpet.v1_column(p_ids));
    END IF;
    WITH given AS (
        SELECT * FROM unnest(
            limpet.v1_column(p_ids), limpet.v1_column(p_tails), limpet.v1_column(p_tasks),
            limpet.v1_column(p_queues), limpet.v1_column(p_args), limpet.v1_column(p_options),
            limpet.v1_column(p_secrets), limpet.v1_column(p_priorities),
            limpet.v1_column(p_scheduled), limpet.v1_column(p_expires),
            limpet.v1_column(p_deadlines), limpet.v1_column(p_keys), limpet.v1_column(p_uniques),
            limpet.v1_column(p_parents), limpet.v1_column(p_roots), limpet.v1_column(p_weights),
            limpet.v1_column(p_versions))
        AS g (id, tail, task, queue, args, options, secrets, priority, scheduled_for, expires_at,
              deadline_at, key, unique_key, parent, root, weight_class, payload_version)
    ), fresh AS (
        INSERT INTO limpet.job (
            id, n, tail, task, queue, priority, created_at, scheduled_for, expires_at, deadline_at,
            key, unique_key, parent, root, weight_class, payload_version, args, options, secrets)
        SELECT g.id, nextval('limpet.line'), g.tail::bigint, coalesce(g.task, v_task),
               coalesce(g.queue, v_queue),
               coalesce(g.priority::integer, 0), at, g.scheduled_for::bigint,
               g.expires_at::bigint, g.deadline_at::bigint, g.key, g.unique_key, g.parent, g.root,
               g.weight_class, coalesce(g.payload_version::integer, 1), g.args,
               coalesce(g.options, v_options), coalesce(g.secrets, '[]')
        FROM given g WHERE g.id <> ALL (v_there)
        RETURNING id, n, tail, task, queue, priority, expires_at, deadline_at, scheduled_for,
                  coalesce(scheduled_for > created_at, false) AS later
    ), ready AS (
        INSERT INTO limpet.ready (
            id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
            orphans, strikes, suspect, last_run, expires_at, deadline_at)
        SELECT id, n, tail, queue, task, priority, at - priority * 60000000::bigint, at,
               1, 0, 0, 0, 0, false, false, expires_at, deadline_at
        FROM fresh WHERE NOT later
    ), scheduled AS (
        INSERT INTO limpet.parked (
            id, n, tail, queue, task, priority, sort_key, ready_at, round, token, failures,
            orphans, strikes, suspect, last_run, expires_at, deadline_at, state)
        SELECT id, n, tail, queue, task, priority, scheduled_for - priority * 60000000::bigint,
               scheduled_for, 1, 0, 0, 0, 0, false, false, expires_at, deadline_at, 'scheduled'
        FROM fresh WHERE later
    ), counted AS (
        INSERT INTO limpet.tally (queue, move, source, target, jobs)
        SELECT queue, 'enqueue', NULL, CASE WHEN later THEN 'scheduled' ELSE 'ready' END, count(*)
        FROM fresh GROUP BY queue, later
    )
    SELECT count(*), count(*) FILTER (WHERE NOT later), max(n)
    INTO v_fresh, v_ready, v_last FROM fresh;
    -- Ring also for jobs that existed: the try that wrote them may have been cut off before it rang. Ring
    -- with this commit, unless another commit is just ringing: this one would have to wait for it (chime.py).
    rung := v_ready = 0 AND cardinality(v_there) = 0;
    IF NOT rung AND p_ring AND (p_epoch IS NOT NULL
            OR pg_try_advisory_xact_lock(hashtextextended('limpet.ready', 0))) THEN
        PERFORM pg_notify('limpet.ready', '');
        rung := true;
    END IF;
    IF cardinality(v_there) > 0 THEN
        SELECT json_object_agg(p.id, p.state) INTO known FROM limpet.placed p
        WHERE p.id = ANY (v_there);
    END IF;
    -- Where no worker sweeps, enqueuers keep the tally short.
    IF v_last % 512 < v_fresh AND p_epoch IS NULL THEN
        PERFORM limpet.v1_fold(1000);
    END IF;
END $$;
