-- column: many values in one text.
-- purpose: a list as a parameter, which is four times as fast to send as an array; see lists.py.
-- params:  listed: the values, each after a character 30; a value that is one character 29 is NULL.
-- returns: the values.

CREATE OR REPLACE FUNCTION limpet.v1_column(listed text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT (string_to_array(listed, E'\x1e', E'\x1d'))[2:]
$$;
