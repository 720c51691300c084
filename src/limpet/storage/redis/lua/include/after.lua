-- after: what follows from a job that has left running or come to its end, in the same step.
-- purpose: turns of keys go to those that wait for them; parents hear of their children, and
--          descendants of parents that are gone are cancelled. Needs keys.lua and moves.lua.
-- why:     moves.lua notes what was given back and who has ended; this works it off, before a claim or
--          at the end of the script, whatever verb it was.

-- What one step may still do for others: turns given, descendants looked at.
local turns_left, kin_left = 1000, 1000
-- Jobs that got their turn in this step.
local readied = {}

-- A turn for a job that says this of its key, or false: then it joins the line. Nobody overtakes those
-- that wait.
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
    k.said = k.said or rules ~= NO_RULES
    if may or next_at then freed[k.name] = true end
    return false
end

-- From a state that was left to ready, or to blocked until it has a turn of its key. Who needs a turn
-- asks when all that the step does to others is done: then the order is that of the line.
local function become_ready(r, move, source)
    if flagged(r.flags, KEYED) and not flagged(r.flags, TURN) then
        asks[r.id] = {r = r, move = move, source = source}
        return
    end
    r.state = READY
    enter(r)
    count_moves(r.queue, move, source, READY, 1)
end

local function let_ask()
    local list = {}
    -- Not those of which something else has become in the same step.
    for _, each in pairs(asks) do list[#list + 1] = each end
    table.sort(list, function(a, b) return comes_before(a.r, b.r) end)
    for _, each in ipairs(list) do
        local r, move, extra = each.r, each.move, extra_of(each.r)
        if turn_for(key_of(extra.key), extra.rules) then
            r.flags = r.flags + TURN
            r.state = READY
            enter(r)
        else
            r.state = BLOCKED
            enter(r, 'key:' .. extra.key)
            if move == 'unblock' then move = 'block' end
        end
        count_moves(r.queue, move, each.source, r.state, 1)
    end
end

-- Blocked to ready for those whose turn it is, who have left their lines. Their rows change in two bytes.
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

-- Where nothing is said of a key there is one turn of it, and who is first gets it.
local function let_first()
    local ids, places, scores = {}, {}, {}
    for name in pairs(freed) do
        local k = key_of(name)
        if not (k.said or k.limit or k.rate) then
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

-- Turns of one key are given in order, as many as its limits allow: the first that may have none stops
-- the line. Promote goes on when a rate lets it, or where this step has done enough.
local function let_some(k)
    local ids, places, scores = {}, {}, {}
    while k.lined do
        local first = redis.call('ZRANGE', P .. 'waits/' .. k.name, #ids, #ids, 'WITHSCORES')
        if not first[1] then
            k.lined = false
            break
        end
        local head = {id = string.sub(first[1], @place.id)}
        local rules = k.said and extra_of(head).rules or NO_RULES
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

local function let_next()
    let_ask()
    let_first()
    for name in pairs(freed) do let_some(key_of(name)) end
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

-- Running to running with cancellation requested, until its holder confirms.
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

-- Whether a job still holds its `unique`, judged by its state or its age.
local function holds_unique(r)
    local rules = extra_of(r).rules
    if rules.unique_until == 'started' then return r.state <= BLOCKED end
    if rules.unique_until == 'time' then return r.created_at + rules.unique_for > now end
    return r.state < SUCCEEDED
end

-- Who holds the `unique` of a task now, or nil.
local function unique_holder(task, unique)
    local id = redis.call('HGET', P .. 'unique', task .. '/' .. unique)
    local r = id and find_row(id)
    return r and holds_unique(r) and r or nil
end

closers[#closers + 1] = let_next
