-- stored: JSON that the store keeps as text, read so that nonsense in one row fails no statement.
-- purpose: rules: the rules of a job.
--          rate: the rate that was set for a key.
--          pools: the digests of a session.
--          piece: a breaker.
-- params:  p_text: the text, or NULL.
-- returns: the JSON; NULL for NULL, and where a part that is read here has the wrong type or range.
--          pools: an empty list in these cases.
-- why:     a cast raises, and whoever may write to the store can write anything. rules is STRICT: it is not
--          run for most jobs, which have none.

CREATE OR REPLACE FUNCTION limpet.v1_rules(p_text text) RETURNS json
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    v_rules json;
BEGIN
    v_rules := p_text::json;
    IF json_typeof(v_rules) <> 'object' OR (v_rules ->> 'key_limit')::integer < 1
       OR (v_rules ->> 'children')::integer < 0 OR (v_rules ->> 'unique_for')::bigint < 0
       OR (v_rules ->> 'key_strict')::boolean IS NULL AND v_rules ->> 'key_strict' IS NOT NULL
       OR v_rules ->> 'key_rate' IS NOT NULL AND limpet.v1_rate((v_rules -> 'key_rate')::text) IS NULL
    THEN
        RETURN NULL;
    END IF;
    RETURN v_rules;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_rate(p_text text) RETURNS json
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    v_rate json;
BEGIN
    v_rate := p_text::json;
    -- The bounds of domain/rate.py.
    IF json_array_length(v_rate) = 3 AND (v_rate ->> 0)::bigint BETWEEN 1 AND 3162240000000000
       AND (v_rate ->> 1)::bigint BETWEEN 1 AND 3162240000000000
       AND (v_rate ->> 2)::bigint BETWEEN 1 AND 3162240000000000 THEN
        RETURN v_rate;
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_pools(p_text text) RETURNS json
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_pools json;
BEGIN
    v_pools := p_text::json;
    RETURN CASE WHEN json_typeof(v_pools) = 'array' THEN v_pools ELSE '[]' END;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN '[]';
END $$;

CREATE OR REPLACE FUNCTION limpet.v1_piece(p_text text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    v_piece jsonb;
BEGIN
    v_piece := p_text::jsonb;
    IF jsonb_typeof(v_piece) <> 'object' THEN
        RETURN NULL;
    END IF;
    RETURN CASE WHEN jsonb_typeof(v_piece -> 'tries') = 'array' THEN v_piece ELSE v_piece - 'tries' END;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
