-- server: whether another server has taken over.
-- purpose: a server that has given out no jobs of this store before (a restart, a new primary, a restored
--          copy) may have older data. Then new tokens are above the time of day, which is above every
--          token that was ever given. And nothing is claimed for the longest lease of the known workers:
--          a job that is ready in the older data may still run in a session that has not noticed the
--          change; by the end of its lease that session has stopped it. Sessions of permits and once-keys
--          run no jobs, so their leases do not count.
-- params:  p_duration: the lease of the session that wants to claim.
--          p_wall, p_lease: wall and lease time, or NULL for the server's clock.
-- returns: base: new tokens are above this number.
--          quiet: whether nothing may be claimed now.

CREATE OR REPLACE FUNCTION limpet.v1_server(
    p_duration bigint, p_wall bigint, p_lease bigint, OUT base bigint, OUT quiet boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_now bigint := limpet.v1_time(p_lease);
    -- Not as text, which depends on the time zone of the connection.
    v_run bigint := (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
    v_kept limpet.server;
BEGIN
    SELECT * INTO v_kept FROM limpet.server WHERE one = 1;
    IF v_kept.run IS NULL THEN
        INSERT INTO limpet.server VALUES (1, v_run, 0, 0, 0) ON CONFLICT DO NOTHING;
        SELECT * INTO v_kept FROM limpet.server WHERE one = 1;
    END IF;
    IF v_kept.run <> v_run OR v_kept.moved_at > v_now THEN
        -- moved_at > v_now: the clock was set back; count from now, not from a time in the future.
        UPDATE limpet.server s
        SET run = v_run, moved_at = v_now,
            base = CASE WHEN s.run = v_run THEN s.base
                        ELSE greatest(limpet.v1_time(p_wall), s.base + 1000000) END,
            longest = coalesce((SELECT max(lease) FROM limpet.session
                                WHERE state <> 'dead' AND kind NOT IN ('permit', 'once')
                                -- A lease of more than a hundred years is nonsense, see sql/rows.py.
                                AND lease <= 3162240000000000), 0)
        WHERE one = 1 AND (s.run <> v_run OR s.moved_at > v_now);
        SELECT * INTO v_kept FROM limpet.server WHERE one = 1;
    END IF;
    base := v_kept.base;
    quiet := v_kept.moved_at > 0 AND v_now < v_kept.moved_at + greatest(v_kept.longest, p_duration);
END $$;
