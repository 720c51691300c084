-- tick: enqueue the jobs of ticks of a schedule, and move its next tick on.
-- purpose: (nothing) to ready, scheduled or blocked, if the schedule is as the caller saw it; see enqueue.
-- params:  given[4] the schedule
--          given[5] next_at as the caller saw it, false for a schedule that is triggered by hand
--          given[6] changed_at as the caller saw it, false likewise
--          given[7] the new next_at
--          given[8] whether its jobs may overlap
--          given[9] how much later than its tick a job is due
--          given[10] to given[13] number, shapes, kinds and extras of the jobs, as in enqueue
--          ARGV[2] and on: pairs of id and blob
-- returns: {0, outcome, next_at, last job}
--          {0, 'fired', next_at, last job, letters, numbers, holders} the last three as in enqueue
-- why:     everything is checked before the first write.
-- include: frame
-- include: row
-- include: session
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: flows
-- include: arrive
-- include: schedule

-- As in enqueue: while a cluster moves the slot, the script fails here or not at all.
redis.call('EXISTS', P .. 'scratch')

local id, seen_at, seen_change, next_at, overlaps, delay, number = given[4], given[5], given[6],
    given[7], given[8], given[9], given[10]
if closed and (closed ~= 'closing' or number > 0) then return {-2} end

local s = find_schedule(id)
if not s then return {0, 'gone'} end
local by_hand = not seen_at
local repeated = by_hand and s.last_job == ARGV[2]
if by_hand then next_at = s.next_at end

local function answer(outcome, ...)
    return {0, outcome, whole(s.next_at), s.last_job, ...}
end

if not by_hand then
    if s.next_at ~= seen_at or s.changed_at ~= seen_change or next_at <= s.next_at then
        return answer('late')
    end
    if s.paused then return answer('paused') end
end
if not overlaps and number > 0 and s.last_job and not repeated then
    local last = find_row(s.last_job)
    if last and last.state <= RUNNING then
        if not by_hand then
            s.next_at = next_at
            s.passed = s.passed + number
            keep_schedule(s)
        end
        return answer('passed')
    end
end

local letters, numbers, holders = {}, {}, {}
if number > 0 then
    local shapes, kinds = given[11], given[12]
    letters, numbers, holders = take_in({number = number, shapes = shapes, kinds = kinds,
        extras = given[13], drains = ruled, texts = ARGV, first = 2})
    if not repeated then
        local taken = 0
        for place, letter in ipairs(letters) do
            if letter ~= 'd' and letter ~= 'u' then
                taken = taken + 1
                s.last_job = ARGV[2 * place]
                s.last_at = shapes[kinds and kinds[place] or 1][4] - delay
            end
        end
        s.fired = s.fired + taken
        s.passed = s.passed + number - taken
    end
end
s.next_at = next_at
keep_schedule(s)
finish()
return answer('fired', table.concat(letters), numbers, holders)
