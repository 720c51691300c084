-- is_json: whether a text is JSON.
-- purpose: for invariants; the type json would refuse to be read.
-- params:  a text, or NULL.
-- returns: true also for NULL.

CREATE OR REPLACE FUNCTION limpet.v1_is_json(p_text text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM p_text::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
    RETURN false;
END $$;
