-- standing: what a session may still do.
-- purpose: checked in the same step as the write that depends on it. A renewal does not wait for the
--          lock that this takes; marking the session dead does.
-- params:  p_session: the session.
--          p_lease: the time on the lease clock, or NULL for the server's clock.
-- returns: live, draining, past or dead; NULL for a session that does not exist.

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
