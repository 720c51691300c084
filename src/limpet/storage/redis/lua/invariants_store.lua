-- invariants_store: check what must always hold of the store as a whole, and of its sessions.
-- purpose: reads only; looks at every session and line, and at every row of a store that is small.
-- params:  given[4] most rows to look at
-- returns: {0, list of {rule, how often it is broken, example}}
-- include: frame
-- include: row
-- include: rows
-- include: session
-- include: digest
-- include: rates
-- include: keys
-- include: broken
-- include: schedule
-- include: permits
-- include: permits_held

local sums, gauges = {}, {}
local kept = redis.call('HGETALL', P .. 'gauge')
for at = 1, #kept, 2 do
    local _, state = split(kept[at])
    gauges[kept[at]] = tonumber(kept[at + 1])
    sums[state] = (sums[state] or 0) + tonumber(kept[at + 1])
end

local real = {scheduled = redis.call('ZCARD', P .. 'scheduled'), ready = 0, running = 0,
    blocked = redis.call('HLEN', P .. 'blocked'),
    quarantined = redis.call('ZCARD', P .. 'quarantined')}
for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do
    real.ready = real.ready + redis.call('ZCARD', P .. line)
end
for state = SUCCEEDED, CANCELLED do
    real[STATES[state]] = redis.call('ZCARD', P .. 'finished/' .. STATES[state])
end

local known, digests = {}, {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'sessions', 0, -1)) do
    local key = P .. 'session/' .. id
    local s = find_session(id)
    if not s then
        wrong('session_is_listed', id)
    else
        local fields = redis.call('HMGET', key, 'ended_at', 'cause', 'rejected', 'pools')
        local dead = s.state == DEAD
        local moment = tonumber(redis.call('ZSCORE', P .. 'moments', id) or nil)
        local ended = redis.call('ZSCORE', P .. 'ended', id) and true or false
        if dead ~= (fields[1] and true or false) or dead ~= (fields[2] and true or false)
            or dead ~= ended or moment ~= (not dead and s.moment or nil) then
            wrong('dead_has_end', id)
        end
        if s.seq > 0 and not fields[3] then wrong('sequence_has_answer', id) end
        held_count, held_names, held_tokens = 0, 0, 0
        local held = held_by(id)
        for _, job in ipairs(held) do
            local r = find_row(job)
            if not holds(r, id, r and r.token) then
                wrong('holdings', 'session ' .. id .. ' does not run ' .. job)
            else
                hold(job, r.token)
            end
        end
        real.running = real.running + #held
        for _, job in ipairs(redis.call('SMEMBERS', P .. 'cancels/' .. id)) do
            local r = find_row(job)
            if not holds(r, id, r and r.token) or r.requested_at == NONE then
                wrong('request_is_listed', 'session ' .. id .. ' is not to stop ' .. job)
            end
        end
        if s.count ~= held_count or s.total ~= new_total(0) then
            wrong('holdings', 'session ' .. id .. ': ' .. s.count .. ' kept, ' .. held_count
                .. ' there')
        end
        local widowed = redis.call('SISMEMBER', P .. 'widowed', id) == 1
        if widowed ~= (dead and #held > 0) then wrong('widowed_has_jobs', id) end
        digests[s.tasks] = (digests[s.tasks] or 0) + 1
        for _, digest in ipairs(stored.json(fields[4]) or {}) do
            digests[digest] = (digests[digest] or 0) + 1
        end
        if not dead then
            for _, task in ipairs(redis.call('SMEMBERS', P .. 'tasks/' .. s.tasks)) do
                known[task] = (known[task] or 0) + 1
            end
        end
    end
end

local counted = redis.call('HGETALL', P .. 'known')
for at = 1, #counted, 2 do
    if tonumber(counted[at + 1]) ~= (known[counted[at]] or 0) then
        wrong('tasks_are_known', counted[at])
    end
    known[counted[at]] = nil
end
for task in pairs(known) do wrong('tasks_are_known', task) end
local referred = redis.call('HGETALL', P .. 'digests')
for at = 1, #referred, 2 do
    if tonumber(referred[at + 1]) ~= (digests[referred[at]] or 0) then
        wrong('tasks_are_known', 'digest ' .. referred[at])
    end
end

for _, state in ipairs(STATES) do
    if (sums[state] or 0) ~= real[state] then
        wrong('gauges_are_right', state .. ': ' .. (sums[state] or 0) .. ' counted, ' .. real[state]
            .. ' there')
    end
end
for _, list in ipairs({'staged', 'flows'}) do
    for _, flow in ipairs(redis.call('ZRANGE', P .. list, 0, -1)) do
        if redis.call('EXISTS', P .. 'flow/' .. flow) == 0 then wrong('flow_is_listed', flow) end
    end
end
local rows = redis.call('HLEN', P .. 'row')
if redis.call('HLEN', P .. 'job') ~= rows or redis.call('ZCARD', P .. 'all') ~= rows then
    wrong('job_has_payload', rows .. ' rows, ' .. redis.call('HLEN', P .. 'job') .. ' payloads, '
        .. redis.call('ZCARD', P .. 'all') .. ' listed')
end
if rows <= given[4] then
    local there, taken = {}, {}
    each_row(function(id, text)
        local queue = split(string.sub(text, line_at(text)))
        local field = queue .. '/' .. (STATES[string.byte(text, @row.state)] or '?')
        there[field] = (there[field] or 0) + 1
        if flagged(string.byte(text, @row.flags), TURN) then
            local key = extra_of({id = id}).key or ''
            taken[key] = (taken[key] or 0) + 1
        end
    end)
    for _, key in ipairs(redis.call('HKEYS', P .. 'turns')) do taken[key] = taken[key] or 0 end
    for key, count in pairs(taken) do
        if key_of(key).count ~= count then
            wrong('turns_are_counted', key .. ': ' .. key_of(key).count .. ' counted, ' .. count
                .. ' there')
        end
    end
    for field, count in pairs(gauges) do
        if count ~= (there[field] or 0) then
            wrong('gauges_are_right', field .. ': ' .. count .. ' counted, ' .. (there[field] or 0)
                .. ' there')
        end
        there[field] = nil
    end
    for field in pairs(there) do wrong('gauges_are_right', field .. ': not counted') end
end

local ticking = 0
for _, id in ipairs(redis.call('HKEYS', P .. 'schedules')) do
    local schedule = find_schedule(id)
    local tick = tonumber(redis.call('ZSCORE', P .. 'ticks', id) or nil)
    if tick then ticking = ticking + 1 end
    if tick ~= (not schedule.paused and schedule.next_at or nil) then wrong('schedule_ticks', id) end
end
if redis.call('ZCARD', P .. 'ticks') ~= ticking then
    wrong('schedule_ticks', 'one that is not there ticks')
end
for _, text in ipairs(redis.call('ZRANGE', P .. 'permits', 0, -1)) do
    local p = permits.read(text)
    if not permits.is_held(p) or redis.call('HGET', P .. 'permit_of', p.holder) ~= text then
        wrong('permit_is_held', p.holder)
    end
end
local by_holder = redis.call('HGETALL', P .. 'permit_of')
for at = 1, #by_holder, 2 do
    if not redis.call('ZSCORE', P .. 'permits', by_holder[at + 1]) then
        wrong('permit_is_held', by_holder[at] .. ' is not listed')
    end
end
return {0, found_wrong()}
