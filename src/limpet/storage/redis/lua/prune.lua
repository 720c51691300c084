-- prune: remove what was finished long ago, a small step at a time.
-- purpose: a final state to (nothing), with everything that is kept of the job; dead sessions that nobody
--          needs any more; staged flows that were not committed. At most a thousand together.
-- params:  given[4] for how long a repeated enqueue is recognized
--          given[5] pairs of state and retention
--          given[6] for how long dead sessions are kept
--          given[7] triples of queue, state and retention there
--          (all times in microseconds)
-- returns: {0, number of jobs, number of sessions, 1 if there is more to remove now}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: write
-- include: forget

local left = 1000
local created_before = now - given[4]
-- How many jobs that stay one call looks at; the next call goes on behind them.
local MOST_PASSED = 5000

-- How long jobs are kept: by state, by queue and state, and the shortest time of each state.
local kept, kept_in, shortest = {}, {}, {}
for _, rule in ipairs(given[5]) do
    kept[rule[1]] = rule[2]
    shortest[rule[1]] = rule[2]
end
for _, rule in ipairs(given[7]) do
    kept_in[rule[1]] = kept_in[rule[1]] or {}
    kept_in[rule[1]][rule[2]] = rule[3]
    shortest[rule[2]] = math.min(shortest[rule[2]] or rule[3], rule[3])
end

-- A parent that is not finished will read the results of its children; so will a parent that is still to be
-- written out with its flow.
local function is_wanted(r)
    if not flagged(r.flags, FAMILY) then return false end
    if redis.call('ZSCORE', P .. 'gone', r.id) then return true end
    local id = extra_of(r).parent
    local parent = id and find_row(id)
    if id and not parent then return redis.call('EXISTS', P .. 'flows') == 1 end
    return parent and parent.state < SUCCEEDED
end

-- A job that holds its unique for a time must stay for all of that time.
local function is_held(r)
    if not flagged(r.flags, UNIQUE) then return false end
    local e = extra_of(r)
    return e.rules.unique_until == 'time' and r.created_at + e.rules.unique_for > now
        and redis.call('HGET', P .. 'unique', r.task .. '/' .. e.unique) == r.id
end

-- When jobs of a queue must have finished to be removed, or -inf where they are kept.
local function finished_before(queue, state)
    local time = kept_in[queue] and kept_in[queue][state] or kept[state]
    return time and now - time or -math.huge
end

-- Finished jobs from a place on, up to a thousand that may be old enough, and for each job whether it is old enough
-- for its queue. Only the queue is read from the rows: where queues keep their jobs for longer, most are passed
-- over, and to unpack 10,000 rows held up the server for 0.4 s.
local function finished_from(start, state)
    -- By place, which Redis finds at once, and not by score with an offset, which it counts off.
    local found = redis.call('ZRANGE', P .. 'finished/' .. state, start, start + 999, 'WITHSCORES')
    local ids, times, old = {}, {}, {}
    for at = 1, #found, 2 do
        local time = tonumber(found[at + 1])
        if time >= now - shortest[state] then break end
        ids[#ids + 1] = found[at]
        times[#ids] = time
    end
    local rows = #ids > 0 and redis.call('HMGET', P .. 'row', unpack(ids)) or {}
    for place, row in ipairs(rows) do
        local line = line_at(row)
        local queue = string.sub(row, line, string.find(row, '/', line, true) - 1)
        old[place] = times[place] < finished_before(queue, state)
    end
    return ids, old
end

local function may_go(id)
    local r = find_row(id)
    return r.created_at < created_before
        and not is_wanted(r)
        and not is_held(r)
        and r
end

local function remove(state)
    local key, place = P .. 'finished/' .. state, 'passed/' .. state
    local start = tonumber(redis.call('HGET', KEYS[1], place) or 0)
    local ids, queues, seen, passed, at_end = {}, {}, 0, 0, false
    while #ids < left and passed < MOST_PASSED and not at_end do
        local found, old = finished_from(start + seen, state)
        for place, id in ipairs(found) do
            if #ids < left then
                local r = old[place] and may_go(id)
                seen = seen + 1
                if r then
                    ids[#ids + 1] = id
                    queues[r.queue] = (queues[r.queue] or 0) + 1
                    forget_beside(r)
                else
                    passed = passed + 1
                end
            end
        end
        at_end = #found < 1000 and #ids < left
    end
    if at_end then
        redis.call('HDEL', KEYS[1], place)
    elseif passed > 0 then
        redis.call('HSET', KEYS[1], place, start + passed)
    end
    if #ids == 0 then return not at_end end
    forget(ids)
    redis.call('ZREM', key, unpack(ids))
    for queue, count in pairs(queues) do
        redis.call('HINCRBY', P .. 'gauge', queue .. '/' .. state, -count)
        redis.call('HINCRBY', P .. 'total', queue .. '/prune', count)
    end
    left = left - #ids
    return not at_end
end

-- Remove flows that were not committed in time, and the record of those that were, once they are written out.
local function forget_flows()
    local before = '(' .. whole(created_before)
    local stale = redis.call('ZRANGEBYSCORE', P .. 'staged', '-inf', before, 'LIMIT', 0, 1000)
    for _, flow in ipairs(stale) do
        redis.call('DEL', P .. 'flow/' .. flow)
        redis.call('ZREM', P .. 'staged', flow)
    end
    for _, flow in ipairs(redis.call('ZRANGEBYSCORE', P .. 'committed', '-inf', before, 'LIMIT', 0,
        1000)) do
        if not redis.call('ZSCORE', P .. 'flows', flow) then
            redis.call('ZREM', P .. 'committed', flow)
        end
    end
    return #stale == 1000
end

local function forget_tasks(digest)
    if redis.call('HINCRBY', P .. 'digests', digest, -1) <= 0 then
        redis.call('HDEL', P .. 'digests', digest)
        redis.call('DEL', P .. 'tasks/' .. digest)
    end
end

local more = forget_flows()
for state = SUCCEEDED, CANCELLED do
    local name = STATES[state]
    if left > 0 and shortest[name] then more = remove(name) or more end
end
local jobs = 1000 - left
if left == 0 then return {0, jobs, 0, 1} end
local old = redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', '(' .. whole(now - given[6]))
local sessions = 0
for _, id in ipairs(old) do
    if sessions < left and redis.call('SISMEMBER', P .. 'widowed', id) == 0 then
        local key = P .. 'session/' .. id
        local known = redis.call('HMGET', key, 'tasks', 'pools')
        if known[1] then forget_tasks(known[1]) end
        for _, digest in ipairs(stored.json(known[2]) or {}) do
            if type(digest) == 'string' then forget_tasks(digest) end
        end
        redis.call('DEL', key, P .. 'held/' .. id, P .. 'cancels/' .. id)
        redis.call('ZREM', P .. 'ended', id)
        redis.call('ZREM', P .. 'sessions', id)
        sessions = sessions + 1
    end
end
return {0, jobs, sessions, (more or sessions == left) and 1 or 0}
