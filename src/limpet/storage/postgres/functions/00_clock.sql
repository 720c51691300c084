-- clock: what time it is.
-- purpose: the one place where time comes from: the server's clock, or what a test gives.
-- params:  the time that was given, or NULL.
-- returns: whole microseconds.

CREATE OR REPLACE FUNCTION limpet.v1_time(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;
