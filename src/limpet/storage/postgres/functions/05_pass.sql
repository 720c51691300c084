-- pass: whether the store accepts what is about to be written.
-- purpose: every function that writes calls this first. The lock is shared, so that writers do not wait
--          for each other. Only a step of a move (relocate.sql) takes it exclusively: that step waits
--          until every writer before it has committed, and every writer after it sees the step.
-- params:  p_new: whether the write begins something new.
-- returns: the stage of a store that is closed; NULL when it is open.
-- errors:  LP003 with the record of the move, where the store does not accept the write.

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
