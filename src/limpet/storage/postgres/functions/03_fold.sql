-- fold: add up the counts of moves.
-- purpose: the tally grows by a row with each step; this adds many rows up to a few, once that is worth it.
--          Rows that another transaction is folding are left to it.
-- params:  p_limit: how many rows to look at, and to fold.
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
        -- Where there are very many queues the first rows show little: now and then look at all rows.
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
