-- moves: from one state to another, with everything that depends on the state.
-- purpose: each state has a collection of its jobs; leave and enter keep these right. What a script counts,
--          records and rings is written once, at its end. A job that enters a state in which it may have no
--          turn of its key gives the turn back here, whatever brought it there.

local gauges, totals, rings = {}, {}, {}
local recorded = 0
-- Functions that run before the end of a script (include/after.lua), and jobs of flows that have ended.
local closers, ended = {}, {}
-- Jobs that need a turn in this step and are in no state meanwhile, by id.
local turn_requests = {}
-- How many jobs became ready; whether a family was changed, so that promote may have to go on.
local made_ready, family_moved = 0, false
local ring_for_places  -- in include/bounds.lua
-- Of a job that comes back for ever the first and the last events are kept. Spare ones may be there, so that not
-- every new event tidies up.
local MOST_EVENTS, FIRST_EVENTS, SPARE_EVENTS = 1000, 10, 100
-- How many of the last events are searched for a settlement, or for a request to cancel.
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
        made_ready = made_ready + count
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
    for place, entry in ipairs(entries) do entries[place] = stored.packed(entry) or {} end
    return entries
end

local function line_of(r)
    return (r.suspect == 1 and 'alone/' or 'ready/') .. r.line
end

-- Claims look at a line without jobs no more.
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
        local key = reason and string.match(reason, '^key:(.*)$')
        if key then
            redis.call('ZREM', P .. 'waits/' .. key, place_of(r))
            -- This job may have been the one that stopped the line.
            freed[key] = true
        elseif reason then
            redis.call('ZREM', P .. 'needs/' .. reason, r.id)
        end
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

local function keeps_turn(r)
    return r.state == READY or (r.state == SCHEDULED and flagged(r.flags, RULED)
        and extra_of(r).rules.key_strict)
end

-- Enter the state of the row, and write the row; `reason` is for a job that is blocked.
local function enter(r, reason)
    if flagged(r.flags, TURN) and not keeps_turn(r) then
        r.flags = r.flags - TURN
        give_back(extra_of(r).key)
    end
    if r.state >= SUCCEEDED and flagged(r.flags, FAMILY) then ended[#ended + 1] = r end
    turn_requests[r.id] = nil
    if r.state == SCHEDULED then
        redis.call('ZADD', P .. 'scheduled', whole(r.ready_at), r.id)
    elseif r.state == READY then
        local line = line_of(r)
        redis.call('ZADD', P .. line, whole(sort_key(r)), place_of(r))
        redis.call('SADD', P .. 'lines', line)
    elseif r.state == BLOCKED then
        redis.call('HSET', P .. 'blocked', r.id, reason)
        local key = string.match(reason, '^key:(.*)$')
        if key then
            redis.call('ZADD', P .. 'waits/' .. key, whole(sort_key(r)), place_of(r))
        else
            redis.call('ZADD', P .. 'needs/' .. reason, 0, r.id)
        end
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

-- Work off what follows from all that was done so far.
local function settle_rest()
    for _, close in ipairs(closers) do close() end
end

-- Write what was counted, and ring; a script does this last. All else is written by then: a user that lost the
-- right to publish must not get an answer as if nothing was written.
local function finish()
    settle_rest()
    write_keys()
    if ruled and ring_for_places then ring_for_places() end
    for field, count in pairs(gauges) do
        if count ~= 0 then redis.call('HINCRBY', P .. 'gauge', field, count) end
    end
    for field, count in pairs(totals) do redis.call('HINCRBY', P .. 'total', field, count) end
    if recorded > 0 then redis.call('LTRIM', P .. 'latest', 0, 999) end
    for topic in pairs(rings) do redis.pcall('PUBLISH', P .. topic, topic) end
end
