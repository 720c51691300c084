-- pause_schedule: stop or resume the ticks of a schedule.
-- purpose: a paused schedule is not fired.
-- params:  given[4] id
--          given[5] whether it is paused
--          given[6] the earliest next tick of a resumed schedule, or false
-- returns: {0, 1 if there is such a schedule}
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
