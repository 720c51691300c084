-- moves: from one state to another, with everything that depends on the state.
-- purpose: each state has a collection of its jobs; leave and enter keep them right. What a script
--          counted, recorded and rings is written once, at its end.

local gauges, totals, rings = {}, {}, {}
local recorded = 0
-- Of a job that comes back for ever the first events are kept and the last; some more may be there,
-- so that not every one more is followed by a tidying up.
local MOST_EVENTS, FIRST_EVENTS, SPARE_EVENTS = 1000, 10, 100
-- How many of the last are looked at for what was said to a holder, or by one.
local LAST_EVENTS = 100

local function gauge(queue, state, count)
    local field = queue .. '/' .. STATES[state]
    gauges[field] = (gauges[field] or 0) + count
end

local function count_moves(queue, move, source, target, count)
    if source then gauge(queue, source, -count) end
    gauge(queue, target, count)
    local field = queue .. '/' .. move
    totals[field] = (totals[field] or 0) + count
    if target == READY then
        rings.ready = true
    elseif target >= SUCCEEDED then
        rings.done = true
    end
end

local function tidy_events(key)
    local first = redis.call('LRANGE', key, 0, FIRST_EVENTS - 1)
    redis.call('LTRIM', key, FIRST_EVENTS - MOST_EVENTS, -1)
    for place = FIRST_EVENTS, 1, -1 do redis.call('LPUSH', key, first[place]) end
end

local function record(r, event, session, token, cause, claimed_at, settled, at)
    if claimed_at == NONE then claimed_at = false end
    local entry = {at or now, event, session or false, token or false, cause or false,
        claimed_at or false, settled or false}
    local key = P .. 'events/' .. r.id
    local number = redis.call('RPUSH', key, cmsgpack.pack(entry))
    if number > MOST_EVENTS + SPARE_EVENTS then tidy_events(key) end
    redis.call('LPUSH', P .. 'latest', cmsgpack.pack({r.id, r.task, r.queue, entry}))
    recorded = recorded + 1
end

local function last_events_of(id)
    local entries = redis.call('LRANGE', P .. 'events/' .. id, -LAST_EVENTS, -1)
    for place, entry in ipairs(entries) do entries[place] = cmsgpack.unpack(entry) end
    return entries
end

local function line_of(r)
    return (r.suspect == 1 and 'alone/' or 'ready/') .. r.line
end

-- A line without jobs is not looked at any more.
local function drop_empty(line)
    if redis.call('EXISTS', P .. line) == 0 then redis.call('SREM', P .. 'lines', line) end
end

local function leave(r)
    if r.state == SCHEDULED then
        redis.call('ZREM', P .. 'scheduled', r.id)
    elseif r.state == READY then
        redis.call('ZREM', P .. line_of(r), place_of(r))
        drop_empty(line_of(r))
    elseif r.state == BLOCKED then
        local reason = redis.call('HGET', P .. 'blocked', r.id)
        redis.call('HDEL', P .. 'blocked', r.id)
        if reason then redis.call('ZREM', P .. 'needs/' .. reason, r.id) end
    elseif r.state == RUNNING then
        redis.call('HDEL', P .. 'held/' .. r.session, r.id)
        if r.requested_at ~= NONE then redis.call('SREM', P .. 'cancels/' .. r.session, r.id) end
    elseif r.state == QUARANTINED then
        redis.call('ZREM', P .. 'quarantined', r.id)
    else
        redis.call('ZREM', P .. 'finished/' .. STATES[r.state], r.id)
    end
    if r.state <= BLOCKED and lapses_at(r) ~= NONE then redis.call('ZREM', P .. 'lapse', r.id) end
end

-- The row must be as it is to be kept; `reason` is for a job that is blocked.
local function enter(r, reason)
    if r.state == SCHEDULED then
        redis.call('ZADD', P .. 'scheduled', whole(r.ready_at), r.id)
    elseif r.state == READY then
        local line = line_of(r)
        redis.call('ZADD', P .. line, whole(sort_key(r)), place_of(r))
        redis.call('SADD', P .. 'lines', line)
    elseif r.state == BLOCKED then
        redis.call('HSET', P .. 'blocked', r.id, reason)
        redis.call('ZADD', P .. 'needs/' .. reason, 0, r.id)
    elseif r.state == QUARANTINED then
        redis.call('ZADD', P .. 'quarantined', 0, r.id)
    else
        redis.call('ZADD', P .. 'finished/' .. STATES[r.state], whole(r.finished_at), r.id)
    end
    if r.state <= BLOCKED and lapses_at(r) ~= NONE then
        redis.call('ZADD', P .. 'lapse', whole(lapses_at(r)), r.id)
    end
    redis.call('HSET', P .. 'row', r.id, row_text(r))
end

-- Write what was counted and ring; the last thing that a script does. Everything is written by then:
-- that somebody may not ring any more must not look as if nothing was.
local function finish()
    for field, count in pairs(gauges) do
        if count ~= 0 then redis.call('HINCRBY', P .. 'gauge', field, count) end
    end
    for field, count in pairs(totals) do redis.call('HINCRBY', P .. 'total', field, count) end
    if recorded > 0 then redis.call('LTRIM', P .. 'latest', 0, 999) end
    for topic in pairs(rings) do redis.pcall('PUBLISH', P .. topic, topic) end
end
