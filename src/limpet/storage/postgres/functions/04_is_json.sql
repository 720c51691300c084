-- is_json: whether a text is JSON.
-- purpose: for invariants; a cast to json would raise.
-- params:  p_text: a text, or NULL.
-- returns: whether it is JSON; true for NULL.

CREATE OR REPLACE FUNCTION limpet.v1_is_json(p_text text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM p_text::json;
    RETURN true;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
    RETURN false;
END $$;
