-- end: mark a session dead.
-- purpose: live or draining to dead; its jobs wait for recover; the permit of a caller outside is gone.
-- params:  given[4] session
--          given[5] cause (JSON)
--          given[6] whether a loss by this death is charged
-- returns: {0, 1 if it was not dead before}
-- include: frame
-- include: session

local s = find_session(given[4])
if not s or s.state == DEAD then return {0, 0} end

-- include: write
-- include: permits
-- include: death

die(s, given[5], given[6])
ring_if_freed()
return {0, 1}
