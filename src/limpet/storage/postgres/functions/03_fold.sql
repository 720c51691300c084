-- fold: put the counts of moves together.
-- purpose: the tally grows by a row for each step; this makes a few of many, once it is worth it. What
--          another folds at the same time is left to it.
-- params:  how many rows to look at, and to fold.
-- returns: nothing.

CREATE OR REPLACE FUNCTION limpet.v1_fold(p_limit integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_rows bigint;
    v_kinds bigint;
BEGIN
    SELECT count(*), count(DISTINCT (t.queue, t.move, t.source, t.target)) INTO v_rows, v_kinds
    FROM (SELECT * FROM limpet.tally LIMIT p_limit) t;
    IF v_rows = p_limit AND v_rows < 3 * v_kinds AND random() < 0.1 THEN
        -- Of very many queues the first rows tell little: look at all of them, now and then.
        SELECT count(*), count(DISTINCT (t.queue, t.move, t.source, t.target)), NULL
        INTO v_rows, v_kinds, p_limit FROM limpet.tally t;
    END IF;
    IF v_rows < 200 OR v_rows < 3 * v_kinds THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM limpet.tally
        WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM limpet.tally LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING queue, move, source, target, jobs)
    INSERT INTO limpet.tally (queue, move, source, target, jobs)
    SELECT queue, move, source, target, sum(jobs) FROM gone GROUP BY queue, move, source, target;
END $$;
