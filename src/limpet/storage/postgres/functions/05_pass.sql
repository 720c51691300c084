-- pass: whether a store takes what is about to be written.
-- purpose: every function that writes asks here first. The lock is shared, so that nobody waits; only
--          a step of a move (relocate.sql) takes it alone, and so waits until all that was
--          let through has been committed, and is seen by all that come after it.
-- params:  whether something new is begun.
-- returns: the stage of a store that is closed; NULL when open.
-- errors:  LP003 with the record of the move, where that is not taken.

CREATE OR REPLACE FUNCTION limpet.v1_pass(p_new boolean) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_closed text;
    v_record text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('limpet.move', 0));
    SELECT s.closed, s.relocation INTO v_closed, v_record FROM limpet.store s;
    IF v_closed IS NOT NULL AND (p_new OR v_closed <> 'closing') THEN
        RAISE EXCEPTION '%', v_record USING ERRCODE = 'LP003';
    END IF;
    RETURN v_closed;
END $$;
