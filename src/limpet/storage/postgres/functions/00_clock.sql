-- clock: what time it is.
-- purpose: the only source of time: the server's clock, or the time that a test gives.
-- params:  given: a time, or NULL for the server's clock.
-- returns: whole microseconds.

CREATE OR REPLACE FUNCTION limpet.v1_time(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;
