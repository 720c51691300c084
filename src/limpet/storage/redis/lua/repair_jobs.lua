-- repair_jobs: put jobs where their rows say that they are, for some of them.
-- purpose: the row decides; a place in a collection that is missing or wrong is written anew. A blocked job
--          without a reason becomes scheduled, so that promote makes it ready as any other. No job enters or
--          leaves a final state, and nothing is removed.
-- params:  given[4] cursor of the scan
--          given[5] how many jobs to look at
-- returns: {0, next cursor, list of {rule, how often it was repaired, example}}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: broken
-- include: write

local function score(key, id)
    return tonumber(redis.call('ZSCORE', P .. key, id) or nil)
end

local function put(rule, key, right, member)
    if score(key, member) == right then return end
    redis.call('ZADD', P .. key, whole(right), member)
    wrong(rule, member)
end

-- Where a blocked job waits: collection, score and member.
local function place_of_reason(r, reason)
    local key = string.match(reason, '^key:(.*)$')
    if key then return 'waits/' .. key, sort_key(r), place_of(r) end
    return 'needs/' .. reason, 0, r.id
end

local function to_scheduled(r)
    gauge(r.queue, r.state, -1)
    gauge(r.queue, SCHEDULED, 1)
    r.state = SCHEDULED
    enter(r)
end

local function mend_blocked(r)
    local reason = redis.call('HGET', P .. 'blocked', r.id)
    if r.state ~= BLOCKED then
        if not reason then return end
        local key, _, member = place_of_reason(r, reason)
        redis.call('ZREM', P .. key, member)
        redis.call('HDEL', P .. 'blocked', r.id)
        wrong('blocked_has_reason', r.id)
        return
    end
    if not reason and redis.call('HEXISTS', P .. 'pending', r.id) == 1 then
        reason = 'children:'
        redis.call('HSET', P .. 'blocked', r.id, reason)
        wrong('blocked_has_reason', r.id)
    end
    if reason then
        put('blocked_has_reason', place_of_reason(r, reason))
        return
    end
    wrong('blocked_has_reason', r.id)
    to_scheduled(r)
end

-- A turn is a flag of the row; `turns` is counted anew by repair_store.
local function mend_turn(r)
    local before = r.flags
    if flagged(r.flags, KEYED) and not extra_of(r).key then r.flags = r.flags - KEYED end
    local keyed, runs = flagged(r.flags, KEYED), r.state == READY or r.state == RUNNING
    local may_have = keyed and (runs or r.state == SCHEDULED)
    if flagged(r.flags, TURN) and not may_have then r.flags = r.flags - TURN end
    local lacks = keyed and r.state == READY and not flagged(r.flags, TURN)
    if r.flags == before and not lacks then return end
    wrong('ready_has_turn', r.id)
    if lacks then
        leave(r)
        to_scheduled(r)
    else
        redis.call('HSET', P .. 'row', r.id, row_text(r))
    end
end

local function mend_relaunch(r)
    if r.state ~= FAILED and redis.call('ZREM', P .. 'relaunch', r.id) == 1 then
        wrong('relaunch_of_failed', r.id)
    end
end

local function mend_place(r)
    if r.state == SCHEDULED then
        put('place_in_line', 'scheduled', r.ready_at, r.id)
    elseif r.state == READY then
        put('place_in_line', line_of(r), sort_key(r), place_of(r))
        if redis.call('SADD', P .. 'lines', line_of(r)) == 1 then wrong('line_is_listed', r.id) end
    elseif r.state == QUARANTINED then
        put('place_in_line', 'quarantined', 0, r.id)
    elseif r.state >= SUCCEEDED and r.finished_at ~= NONE then
        put('place_in_line', 'finished/' .. STATES[r.state], r.finished_at, r.id)
    elseif r.state == RUNNING then
        local change = r.requested_at ~= NONE and 'SADD' or 'SREM'
        if redis.call(change, P .. 'cancels/' .. r.session, r.id) == 1 then
            wrong('request_is_listed', r.id)
        end
    end
    local limit = r.state <= BLOCKED and lapses_at(r) ~= NONE and lapses_at(r)
    if limit then
        put('lapse_is_earliest', 'lapse', limit, r.id)
    elseif redis.call('ZREM', P .. 'lapse', r.id) == 1 then
        wrong('lapse_is_earliest', r.id)
    end
end

local answer = redis.call('HSCAN', P .. 'row', given[4], 'COUNT', given[5])
for at = 1, #answer[2], 2 do
    local id = answer[2][at]
    local r = read_row(id, present(id, answer[2][at + 1]))
    if STATES[r.state] then
        mend_turn(r)
        mend_blocked(r)
        mend_place(r)
        mend_relaunch(r)
    end
end
local repaired = found_wrong()
for _, rule in ipairs(repaired) do totals['*/mend:' .. rule[1]] = rule[2] end
finish()
return {0, answer[1], repaired}
