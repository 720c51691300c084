-- after: what follows when a job has left running or has ended, in the same step.
-- purpose: turns of keys go to jobs that wait for them; parents learn of their children, and descendants of
--          parents that are gone are cancelled. Needs keys.lua and moves.lua.
-- why:     moves.lua notes which turns were given back and which jobs have ended; this file works that off,
--          before a claim or at the end of the script, whatever the verb.

-- What one step may still do for other jobs: turns to give, descendants to look at.
local turns_left, kin_left = 1000, 1000
-- Jobs that got their turn in this step.
local readied = {}

-- Take a turn of a key for a job with these rules; or false, and the job joins the line. No job overtakes
-- those that wait.
local function turn_for(k, rules)
    local may, next_at = may_have_turn(k, rules)
    if may and k.lined and not k.joined then
        k.lined = redis.call('EXISTS', P .. 'waits/' .. k.name) == 1
    end
    if may and not k.lined then
        take_turn(k, rules)
        return true
    end
    k.lined, k.joined = true, true
    k.own_rules = k.own_rules or rules ~= NO_RULES
    if may or next_at then freed[k.name] = true end
    return false
end

-- From a state that was left to ready, or to blocked until the job has a turn of its key. Turns are given when
-- all that the step does to other jobs is done: then their order is that of the line.
local function become_ready(r, move, source)
    if flagged(r.flags, KEYED) and not flagged(r.flags, TURN) then
        turn_requests[r.id] = {r = r, move = move, source = source}
        return
    end
    r.state = READY
    enter(r)
    count_moves(r.queue, move, source, READY, 1)
end

local function serve_requests()
    local list = {}
    -- A job that went to another state in the same step is no longer among them.
    for _, request in pairs(turn_requests) do list[#list + 1] = request end
    table.sort(list, function(a, b) return comes_before(a.r, b.r) end)
    for _, request in ipairs(list) do
        local r, move, extra = request.r, request.move, extra_of(request.r)
        if turn_for(key_of(extra.key), extra.rules) then
            r.flags = r.flags + TURN
            r.state = READY
            enter(r)
        else
            r.state = BLOCKED
            enter(r, 'key:' .. extra.key)
            if move == 'unblock' then move = 'block' end
        end
        count_moves(r.queue, move, request.source, r.state, 1)
    end
end

-- Blocked to ready for jobs that got their turn and have left their lines. Two bytes of their rows change.
local function make_ready(ids, places, scores)
    if #ids == 0 then return end
    local rows, lines = redis.call('HMGET', P .. 'row', unpack(ids)), {}
    local changed = {}
    for at, id in ipairs(ids) do
        local row = rows[at]
        changed[2 * at - 1] = id
        changed[2 * at] = @state.ready.byte .. string.sub(row, @row.begun, @row.last_run.last)
            .. string.char(string.byte(row, @row.flags) + TURN) .. string.sub(row, @row.round)
        local line = (string.byte(row, @row.suspect) == 1 and 'alone/' or 'ready/')
            .. string.sub(row, @row.session + string.byte(row, @row.session_length))
        local queued = lines[line]
        if not queued then
            queued = {}
            lines[line] = queued
        end
        local n = #queued
        queued[n + 1] = scores[at]
        queued[n + 2] = places[at]
        readied[id] = true
    end
    redis.call('HDEL', P .. 'blocked', unpack(ids))
    redis.call('HSET', P .. 'row', unpack(changed))
    for line, queued in pairs(lines) do
        redis.call('ZADD', P .. line, unpack(queued))
        redis.call('SADD', P .. 'lines', line)
        count_moves((split(string.sub(line, 7))), 'unblock', BLOCKED, READY, #queued / 2)
    end
end

-- A key without any rules has one turn, and the first job in its line gets it.
local function serve_plain_keys()
    local ids, places, scores = {}, {}, {}
    for name in pairs(freed) do
        local k = key_of(name)
        if not (k.own_rules or k.limit or k.rate) then
            freed[name] = nil
            if k.lined and k.count == 0 and turns_left > 0 then
                local first = redis.call('ZPOPMIN', P .. 'waits/' .. name)
                if first[1] then
                    local n = #ids + 1
                    ids[n], places[n], scores[n] = string.sub(first[1], @place.id), first[1], first[2]
                    k.count, turns_left = 1, turns_left - 1
                else
                    k.lined = false
                end
            elseif k.lined and k.count == 0 then
                redis.call('ZADD', P .. 'key_due', whole(now), name)
            end
        end
    end
    make_ready(ids, places, scores)
end

-- Turns of one key are given in order, as many as its limits allow: the first job that may have none stops
-- the line. Promote goes on when a rate allows it, or where this step has done enough.
local function serve_key(k)
    local ids, places, scores = {}, {}, {}
    while k.lined do
        local first = redis.call('ZRANGE', P .. 'waits/' .. k.name, #ids, #ids, 'WITHSCORES')
        if not first[1] then
            k.lined = false
            break
        end
        local head = {id = string.sub(first[1], @place.id)}
        local rules = k.own_rules and extra_of(head).rules or NO_RULES
        local may, next_at = may_have_turn(k, rules)
        if not may or turns_left == 0 then
            if may then next_at = now end
            if next_at then redis.call('ZADD', P .. 'key_due', whole(next_at), k.name) end
            break
        end
        take_turn(k, rules)
        turns_left = turns_left - 1
        local n = #ids + 1
        ids[n], places[n], scores[n] = head.id, first[1], first[2]
    end
    if #ids > 0 then
        redis.call('ZREMRANGEBYRANK', P .. 'waits/' .. k.name, 0, #ids - 1)
        make_ready(ids, places, scores)
    end
end

local function serve_keys()
    serve_requests()
    serve_plain_keys()
    for name in pairs(freed) do serve_key(key_of(name)) end
    freed = {}
    for _, k in pairs(keys) do k.joined = nil end
end

-- Waiting or quarantined to cancelled.
local function cancel_waiting(r, cause)
    local source = r.state
    leave(r)
    r.state, r.finished_at, r.requested_at = CANCELLED, now, now
    enter(r)
    redis.call('HSET', P .. 'error', r.id, cause)
    record(r, 'cancelled', nil, nil, cause)
    count_moves(r.queue, 'cancel', source, CANCELLED, 1)
end

-- Running to running with cancellation requested, until the holder confirms it.
local function request_cancel(r, cause)
    if r.requested_at ~= NONE then return end
    r.requested_at = now
    redis.call('HSET', P .. 'row', r.id, row_text(r))
    redis.call('SADD', P .. 'cancels/' .. r.session, r.id)
    local key = P .. 'held/' .. r.session
    local held = redis.call('HGET', key, r.id)
    redis.call('HSET', key, r.id, '\1' .. string.sub(held, @held.begun, @held.token.last) .. r.line)
    record(r, 'cancel_requested', r.session, r.token, cause, r.claimed_at)
    rings.cancel = true
end

-- Whether a job still holds its `unique`: its rules tell whether by state or by age.
local function holds_unique(r)
    local rules = extra_of(r).rules
    if rules.unique_until == 'started' then return r.state <= BLOCKED end
    if rules.unique_until == 'time' then return r.created_at + rules.unique_for > now end
    return r.state < SUCCEEDED
end

-- The job that holds the `unique` of a task now, or nil.
local function unique_holder(task, unique)
    local id = redis.call('HGET', P .. 'unique', task .. '/' .. unique)
    local r = id and find_row(id)
    return r and holds_unique(r) and r or nil
end

closers[#closers + 1] = serve_keys
