-- standing: what a session may still do.
-- purpose: asked in the same step as what depends on it. The lock is one that a renewal does not
--          wait for, and the mark of death does.
-- params:  the session; the time on the lease clock, or NULL.
-- returns: live, draining, past or dead; NULL for a session that is not there.

CREATE OR REPLACE FUNCTION limpet.v1_standing(p_session text, p_lease bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_state text;
    v_moment bigint;
BEGIN
    SELECT state, moment INTO v_state, v_moment
    FROM limpet.session WHERE id = p_session FOR KEY SHARE;
    RETURN CASE
        WHEN v_state = 'dead' THEN 'dead'
        WHEN v_moment <= limpet.v1_time(p_lease) THEN 'past'
        ELSE v_state END;
END $$;
