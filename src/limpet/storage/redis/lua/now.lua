-- now: the lease clock.
-- purpose: reads only.
-- params:  none.
-- returns: {0, lease clock}.
-- include: frame

return {0, whole(now_lease)}
