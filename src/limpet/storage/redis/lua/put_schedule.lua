-- put_schedule: add a schedule, or replace it.
-- purpose: (nothing) to a schedule; one that is there stays paused or not, and keeps next_at where its
--          timing is the same.
-- params:  given[4] id
--          given[5] timing
--          given[6] definition
--          given[7] next_at
-- returns: {0, 1 if something changed}
-- include: frame
-- include: unclosed
-- include: write
-- include: schedule

local id, timing, definition, next_at = given[4], given[5], given[6], given[7]
local s = find_schedule(id)
if s and s.definition == definition then return {0, 0} end
if not s then
    s = {id = id, paused = false, last_at = false, last_job = false, fired = 0, passed = 0,
        changed_at = 0}
end
if s.timing ~= timing then s.next_at = next_at end
s.timing, s.definition = timing, definition
s.changed_at = math.max(now, s.changed_at + 1)
keep_schedule(s)
return {0, 1}
