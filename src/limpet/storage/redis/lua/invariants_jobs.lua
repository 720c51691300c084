-- invariants_jobs: check what must always hold of a job, for some of them.
-- purpose: reads only.
-- params:  given[4] cursor of the scan
--          given[5] how many jobs to look at
-- returns: {0, next cursor, list of {rule, how often it is broken, example}}
-- include: frame
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: broken

local function score(key, id)
    return tonumber(redis.call('ZSCORE', P .. key, id) or nil)
end

local function has(key, id)
    return redis.call('HEXISTS', P .. key, id) == 1
end

local function is_json(text)
    return (pcall(cjson.decode, text))
end

-- A job is in the collection of its state, at the right place.
local function check_place(r)
    local id = r.id
    local place, right
    if r.state == SCHEDULED then
        place, right = score('scheduled', id), r.ready_at
    elseif r.state == READY then
        place, right = score(line_of(r), place_of(r)), sort_key(r)
    elseif r.state == RUNNING then
        local held = redis.call('HGET', P .. 'held/' .. r.session, id)
        place = held and string.sub(held, @held.token)
        right = struct.pack(@held.token.format, r.token) .. r.line
        if held and string.byte(held, @held.kind) == 2 then right = right .. '\0' .. extra_of(r).key end
    elseif r.state == QUARANTINED then
        place, right = score('quarantined', id), 0
    elseif r.state >= SUCCEEDED then
        place, right = score('finished/' .. STATES[r.state], id), r.finished_at
    end
    if place ~= right then wrong('place_in_line', id .. ' ' .. STATES[r.state]) end
    local limit = r.state <= BLOCKED and lapses_at(r) ~= NONE and lapses_at(r) or nil
    if score('lapse', id) ~= limit then wrong('lapse_is_earliest', id) end
    local reason = redis.call('HGET', P .. 'blocked', id)
    local key = reason and string.match(reason, '^key:(.*)$')
    local waits
    if key then
        waits = score('waits/' .. key, place_of(r)) == sort_key(r)
    else
        waits = reason and score('needs/' .. reason, id) == 0
    end
    if (r.state == BLOCKED) ~= (waits and true or false) then wrong('blocked_has_reason', id) end
end

local function check_running(r)
    if redis.call('EXISTS', P .. 'session/' .. r.session) == 0 then
        wrong('running_has_session', r.id)
    end
    if r.token < 1 or r.claimed_at == NONE then wrong('running_has_token', r.id) end
    local listed = redis.call('SISMEMBER', P .. 'cancels/' .. r.session, r.id) == 1
    if listed ~= (r.requested_at ~= NONE) then wrong('request_is_listed', r.id) end
end

local function check_contents(r)
    local id = r.id
    local blob = redis.call('HGET', P .. 'job', id)
    if not blob or score('all', id) ~= r.number then
        wrong('job_has_payload', id)
    else
        local ok, parts = pcall(cmsgpack.unpack, '\149' .. blob)
        if not ok or not is_json(parts[2]) or not is_json(parts[3]) then
            wrong('payload_is_json', 'payload ' .. id)
        end
    end
    local result, err = redis.call('HGET', P .. 'result', id), redis.call('HGET', P .. 'error', id)
    if (result and not is_json(result)) or (err and not is_json(err)) then
        wrong('payload_is_json', 'result ' .. id)
    end
    if (result and r.state ~= SUCCEEDED) or (err and r.state == SUCCEEDED) then
        wrong('result_of_success', id)
    end
    for _, event in ipairs(last_events_of(id)) do
        if event[4] and event[4] > r.token and event[2] ~= 'lease_lost' then
            wrong('token_never_falls', id)
            break
        end
    end
end

-- A job has a turn of its key if it needs one; its parent lists it; it waits for the number of children that is kept.
local function check_shape(r)
    local keyed, turn = flagged(r.flags, KEYED), flagged(r.flags, TURN)
    local runs = r.state == READY or r.state == RUNNING
    if (turn and not keyed) or (keyed and runs and not turn) or (turn and not runs
        and not (r.state == SCHEDULED and extra_of(r).rules.key_strict)) then
        wrong('ready_has_turn', r.id)
    end
    local parent = flagged(r.flags, FAMILY) and extra_of(r).parent
    if parent and has('row', parent) and score('children/' .. parent, r.id) ~= r.number then
        wrong('child_is_listed', r.id)
    end
    local pending = tonumber(redis.call('HGET', P .. 'pending', r.id) or nil)
    local waits = redis.call('HGET', P .. 'blocked', r.id) == 'children:'
    if waits ~= (pending ~= nil) or (pending and pending < 1) then
        wrong('pending_while_blocked', r.id)
    end
    if score('relaunch', r.id) and r.state ~= FAILED then wrong('relaunch_of_failed', r.id) end
end

local answer = redis.call('HSCAN', P .. 'row', given[4], 'COUNT', given[5])
for at = 1, #answer[2], 2 do
    local id = answer[2][at]
    local r = read_row(id, present(id, answer[2][at + 1]))
    if not STATES[r.state] then
        wrong('state_is_known', id .. ' ' .. r.state)
    else
        check_place(r)
        if r.state == RUNNING then check_running(r) end
        check_contents(r)
        check_shape(r)
        if (r.state >= SUCCEEDED) ~= (r.finished_at ~= NONE) then wrong('final_is_finished', id) end
        if r.strikes > r.orphans or (r.state <= RUNNING and r.last_run == 0
            and (r.orphans >= 10 or r.strikes >= 3)) then
            wrong('counters_within_caps', id)
        end
    end
end
return {0, answer[1], found_wrong()}
