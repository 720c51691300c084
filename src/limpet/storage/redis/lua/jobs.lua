-- jobs: a part of the list of jobs, newest first.
-- purpose: reads only. A state with few jobs is read whole from its collection; else the list of all jobs
--          is read on from the cursor, some thousand at a time.
-- params:  given[4] number to continue below, or false
--          given[5] how many
--          given[6] state, or false
--          given[7] queue, or false
--          given[8] task, or false
--          given[9] most jobs to look at
-- returns: {0, parts of each job, number below which to look on, or '' at the end}
-- include: frame
-- include: row
-- include: job_parts

local after, number, state, queue, task, most = given[4], given[5], given[6], given[7], given[8],
    given[9]

local function fits(id, text)
    if state and STATES[string.byte(present(id, text), @row.state)] ~= state then return false end
    local its_queue, its_task = split(string.sub(text, line_at(text)))
    return (not queue or its_queue == queue) and (not task or its_task == task)
end

-- How many jobs of the state there are, by the gauges.
local function size()
    local sum = 0
    local gauges = redis.call('HGETALL', P .. 'gauge')
    for at = 1, #gauges, 2 do
        local _, its_state = split(gauges[at])
        if its_state == state then sum = sum + tonumber(gauges[at + 1]) end
    end
    return sum
end

-- The ids of all jobs of the state, in any order.
local function collected()
    if state == 'scheduled' or state == 'quarantined' then
        return redis.call('ZRANGE', P .. state, 0, -1)
    elseif state == 'blocked' then
        return redis.call('HKEYS', P .. 'blocked')
    end
    local ids, keys = {}, {}
    if state == 'running' then
        for _, session in ipairs(redis.call('ZRANGE', P .. 'sessions', 0, -1)) do
            for _, id in ipairs(held_by(session)) do ids[#ids + 1] = id end
        end
    elseif state == 'ready' then
        for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do keys[#keys + 1] = P .. line end
    else
        keys[1] = P .. 'finished/' .. state
    end
    for _, key in ipairs(keys) do
        local cut = state == 'ready' and 7 or 1
        for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do ids[#ids + 1] = string.sub(id, cut) end
    end
    return ids
end

local found = {}

-- Add the jobs that match, until there are enough.
local function add(ids)
    for start = 1, #ids, 500 do
        local last = math.min(start + 499, #ids)
        local rows = redis.call('HMGET', P .. 'row', unpack(ids, start, last))
        for at = start, last do
            local row = rows[at - start + 1]
            if #found < number and row and fits(ids[at], row) then found[#found + 1] = ids[at] end
        end
        if #found == number then return end
    end
end

if state and size() <= most then
    local rows = {}
    for _, id in ipairs(collected()) do
        local r = find_row(id)
        if r and (not after or r.number < after) then rows[#rows + 1] = r end
    end
    table.sort(rows, function(a, b) return a.number > b.number end)
    local ids = {}
    for _, r in ipairs(rows) do ids[#ids + 1] = r.id end
    add(ids)
    return {0, job_parts(found), ''}
end
local looked = 0
while looked < most do
    local below = after and '(' .. whole(after) or '+inf'
    local ids = redis.call('ZREVRANGEBYSCORE', P .. 'all', below, '-inf', 'LIMIT', 0, 1000)
    add(ids)
    if #found == number then return {0, job_parts(found), whole(find_row(found[number]).number)} end
    if #ids < 1000 then return {0, job_parts(found), ''} end
    after = find_row(ids[#ids]).number
    looked = looked + #ids
end
return {0, job_parts(found), whole(after)}
