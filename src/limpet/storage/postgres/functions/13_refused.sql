-- refused: what follows from jobs that were not written, and from jobs that were replaced.
-- purpose: replaced: waiting to cancelled, running to cancel requested, for jobs whose place a newer job
--          takes.
--          settle_refused: give back the turns of replaced jobs and count down their parents (see after); a
--          parent does not wait for a child that was not written; the children of a parent that is gone
--          are cancelled.
-- params:  as the variables of admit.
--          p_own: true for replaced jobs that the same call has written, false for all others.
-- returns: replaced: the jobs for whose end others may be waiting, with their turns and whether each waited
--          for children, as after takes them.
--          settle_refused: how many jobs became ready.

CREATE OR REPLACE FUNCTION limpet.v1_replaced(
    p_ids text[], p_no jsonb, p_own boolean, p_now bigint,
    OUT ids text[], OUT turns boolean[], OUT alone boolean[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_each record;
    v_stop record;
BEGIN
    ids := '{}'; turns := '{}'; alone := '{}';
    FOR v_each IN
        SELECT e.key AS id, e.value ->> 1 AS other FROM jsonb_each(p_no) e
        WHERE e.value ->> 0 = 'replaces' AND (e.value ->> 1 = ANY (p_ids)) = p_own
        ORDER BY (e.value ->> 1) COLLATE "C"
    LOOP
        SELECT * INTO v_stop FROM limpet.v1_stop(v_each.other, json_build_object(
            'kind', 'Replaced', 'by', v_each.id,
            'text', 'the newer job ' || v_each.id || ' took its place')::text, p_now, true);
        IF v_stop.stopped AND v_stop.followed THEN
            ids := ids || v_each.other;
            turns := turns || v_stop.turn;
            alone := alone || v_stop.alone;
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_settle_refused(
    p_ids text[], p_parents text[], p_kinds text[], p_no jsonb, p_replaced text[],
    p_turns boolean[], p_alone boolean[], p_epoch text, p_flow boolean, p_now bigint)
RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_each record;
    v_own record;
    v_down record;
    v_keys text[];
    v_gone text[];
    v_moved integer := 0;
BEGIN
    SELECT * INTO v_own FROM limpet.v1_replaced(p_ids, p_no, true, p_now);
    p_replaced := p_replaced || v_own.ids;
    p_turns := p_turns || v_own.turns;
    p_alone := p_alone || v_own.alone;
    IF p_epoch IS NOT NULL THEN
        INSERT INTO limpet.note (kind, what, turn, alone)
        SELECT 'ended', g.id, g.turn, g.alone
        FROM unnest(p_replaced, p_turns, p_alone) AS g (id, turn, alone);
        RETURN 0;
    END IF;
    SELECT array_agg(l.parent) AS parents, array_agg(l.number) AS numbers INTO v_each
    FROM (SELECT g.parent, count(*)::integer AS number
          FROM unnest(p_ids, p_parents, p_kinds) AS g (id, parent, kind)
          LEFT JOIN limpet.job j ON j.id = g.id
          WHERE g.parent IS NOT NULL AND g.kind = 'refused'
            AND (p_flow OR EXISTS (
                SELECT FROM unnest(p_ids, p_kinds) AS o (id, kind)
                WHERE o.id = g.parent AND o.kind <> 'refused'))
            AND (p_no -> g.id ->> 0 <> 'already' OR j.parent IS DISTINCT FROM g.parent
                 OR p_no -> g.id ->> 2 IN ('succeeded', 'failed', 'cancelled'))
          GROUP BY g.parent) l;
    IF v_each.parents IS NOT NULL THEN
        SELECT * INTO v_down FROM limpet.v1_children_ended(v_each.parents, v_each.numbers, NULL, NULL, p_now);
        v_moved := v_down.moved;
        -- Parents with a key join its line now; admit has locked the key.
        v_keys := limpet.v1_expect_jobs(v_down.joined, NULL);
        IF v_keys IS NOT NULL THEN
            v_moved := v_moved
                + limpet.v1_turns(v_keys, array_fill(0, ARRAY[cardinality(v_keys)]), p_now);
        END IF;
    END IF;
    IF p_flow THEN
        v_gone := ARRAY(SELECT d.id FROM limpet.done d
                        WHERE d.id = ANY (p_parents) AND d.state IN ('failed', 'cancelled'));
    END IF;
    IF cardinality(p_replaced) > 0 OR cardinality(v_gone) > 0 THEN
        v_moved := v_moved + (SELECT a.moved FROM limpet.v1_after(
            p_replaced, array_fill('cancelled'::text, ARRAY[cardinality(p_replaced)]), p_turns,
            p_alone, v_gone, false, p_now) a);
    END IF;
    RETURN v_moved;
END $$;
