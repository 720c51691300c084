-- pause_schedule: stop or resume the ticks of a schedule.
-- purpose: one that is paused is not fired.
-- params:  id, whether it is paused, from when on it ticks again or false.
-- returns: {0, 1 if there is one}.
-- include: frame
-- include: unclosed
-- include: write
-- include: schedule

local s = find_schedule(given[4])
if not s then return {0, 0} end
if s.paused ~= given[5] then
    if not given[5] and given[6] then s.next_at = math.max(s.next_at, given[6]) end
    s.paused = given[5]
    keep_schedule(s)
end
return {0, 1}
