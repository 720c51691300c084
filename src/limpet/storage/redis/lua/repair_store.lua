-- repair_store: count anew what is counted, and list anew what is listed.
-- purpose: counts of jobs, turns of keys, digests of sessions, dead sessions that wait for recovery, lines,
--          permits. Rows and what sessions hold decide. In a store of very many jobs only what does not need
--          all of them is repaired.
-- params:  given[4] most rows to look at
-- returns: {0, list of {rule, how often it was repaired, example}}
-- include: frame
-- include: unclosed
-- include: row
-- include: rows
-- include: session
-- include: rates
-- include: keys
-- include: digest
-- include: broken
-- include: schedule
-- include: permits
-- include: permits_held
-- include: write

local known = {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'sessions', 0, -1)) do
    local s = find_session(id)
    if s then
        held_count, held_names, held_tokens = 0, 0, 0
        local held = held_by(id)
        for _, job in ipairs(held) do
            local r = find_row(job)
            if holds(r, id, r and r.token) then hold(job, r.token) end
        end
        if s.count ~= held_count or s.total ~= new_total(0) then
            redis.call('HSET', P .. 'session/' .. id, 'count', whole(held_count), 'total',
                whole(new_total(0)))
            wrong('holdings', id)
        end
        local dead = s.state == DEAD
        local change = dead and #held > 0 and 'SADD' or 'SREM'
        if redis.call(change, P .. 'widowed', id) == 1 then wrong('widowed_has_jobs', id) end
        if not dead then
            for _, task in ipairs(redis.call('SMEMBERS', P .. 'tasks/' .. s.tasks)) do
                known[task] = (known[task] or 0) + 1
            end
        end
    end
end

-- Set a hash of counts to `right`; a field that is no longer counted becomes `none`, or is removed without it.
local function count_anew(rule, hash, right, none)
    local kept = redis.call('HGETALL', P .. hash)
    for at = 1, #kept, 2 do
        local field = kept[at]
        local count = right[field]
        right[field] = nil
        if not count and not none then
            redis.call('HDEL', P .. hash, field)
            wrong(rule, field)
        elseif tonumber(kept[at + 1]) ~= (count or none) then
            redis.call('HSET', P .. hash, field, whole(count or none))
            wrong(rule, field)
        end
    end
    for field, count in pairs(right) do
        redis.call('HSET', P .. hash, field, whole(count))
        wrong(rule, field)
    end
end

count_anew('tasks_are_known', 'known', known, 0)
if redis.call('HLEN', P .. 'row') <= given[4] then
    local gauges, turns, waiting = {}, {}, {}
    each_row(function(id, text)
        local r = read_row(id, text)
        if STATES[r.state] then
            local field = r.queue .. '/' .. STATES[r.state]
            gauges[field] = (gauges[field] or 0) + 1
            local key = flagged(r.flags, KEYED) and extra_of(r).key
            if key and flagged(r.flags, TURN) then turns[key] = (turns[key] or 0) + 1 end
            if key and r.state == BLOCKED then waiting[key] = true end
        end
    end)
    count_anew('gauges_are_right', 'gauge', gauges, 0)
    local names = {}
    for _, counted in ipairs({turns, waiting}) do
        for key in pairs(counted) do names[key] = true end
    end
    for _, key in ipairs(redis.call('HKEYS', P .. 'turns')) do names[key] = true end
    for key in pairs(names) do
        local k, right = key_of(key), turns[key] or 0
        if k.count ~= right or (waiting[key] and not k.lined) then
            k.count, k.lined, k.own_rules = right, k.lined or waiting[key], k.own_rules or waiting[key]
            -- A turn may be free for the jobs that wait: promote gives it.
            if waiting[key] then redis.call('ZADD', P .. 'key_due', whole(now), key) end
            wrong('turns_are_counted', key)
        end
    end
    write_keys()
end

for _, id in ipairs(redis.call('HKEYS', P .. 'schedules')) do
    local schedule = find_schedule(id)
    local tick = tonumber(redis.call('ZSCORE', P .. 'ticks', id) or nil)
    if tick ~= (not schedule.paused and schedule.next_at or nil) then
        keep_schedule(schedule)
        wrong('schedule_ticks', id)
    end
end
for _, id in ipairs(redis.call('ZRANGE', P .. 'ticks', 0, -1)) do
    if redis.call('HEXISTS', P .. 'schedules', id) == 0 then
        redis.call('ZREM', P .. 'ticks', id)
        wrong('schedule_ticks', id)
    end
end

-- A permit whose holder is there stays; the others are removed, and there is room again.
local has_room = false
for _, text in ipairs(redis.call('ZRANGE', P .. 'permits', 0, -1)) do
    local p = permits.read(text)
    local kept = redis.call('HGET', P .. 'permit_of', p.holder)
    if permits.is_held(p) and not kept then
        redis.call('HSET', P .. 'permit_of', p.holder, text)
        wrong('permit_is_held', p.holder)
    elseif not permits.is_held(p) or kept ~= text then
        redis.call('ZREM', P .. 'permits', text)
        if kept == text then redis.call('HDEL', P .. 'permit_of', p.holder) end
        wrong('permit_is_held', p.holder)
        has_room = true
    end
end
local by_holder = redis.call('HGETALL', P .. 'permit_of')
for at = 1, #by_holder, 2 do
    local holder, text = by_holder[at], by_holder[at + 1]
    if not redis.call('ZSCORE', P .. 'permits', text) then
        local p = permits.read(text)
        if p.holder == holder and permits.is_held(p) then
            redis.call('ZADD', P .. 'permits', 0, text)
        else
            redis.call('HDEL', P .. 'permit_of', holder)
        end
        wrong('permit_is_held', holder)
    end
end

local repaired = found_wrong()
for _, rule in ipairs(repaired) do
    redis.call('HINCRBY', P .. 'total', '*/mend:' .. rule[1], rule[2])
end
if has_room then redis.pcall('PUBLISH', P .. 'ready', 'ready') end
return {0, repaired}
