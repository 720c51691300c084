-- prune: remove what was finished long ago, a small step at a time.
-- purpose: a final state to (nothing), with everything told about the job; dead sessions that
--          nobody needs any more. At most a thousand together.
-- params:  for how long a repeat of an enqueue is safe, pairs of state and retention, how long dead
--          sessions are kept; all in microseconds.
-- returns: {0, jobs, sessions, 1 if there is more to remove now}.
-- include: frame
-- include: unclosed
-- include: row
-- include: moves
-- include: write

local left = 1000
local created_before = now - given[4]

local function remove(state, before)
    local key = P .. 'finished/' .. state
    local ids, keys, queues, seen = {}, {}, {}, 0
    -- Those that a repeat of their enqueue could still meet are passed over, but not endlessly.
    while #ids < left and seen < 10000 do
        local found = redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. whole(before), 'LIMIT', seen,
            1000)
        for _, id in ipairs(found) do
            local r = find_row(id)
            if #ids < left and r.created_at < created_before then
                ids[#ids + 1] = id
                keys[#keys + 1] = P .. 'events/' .. id
                keys[#keys + 1] = P .. 'log/' .. id
                queues[r.queue] = (queues[r.queue] or 0) + 1
            end
        end
        seen = seen + #found
        if #found < 1000 then break end
    end
    if #ids == 0 then return end
    redis.call('DEL', unpack(keys))
    for _, hash in ipairs({'job', 'row', 'extra', 'result', 'result_secrets', 'error', 'progress'}) do
        redis.call('HDEL', P .. hash, unpack(ids))
    end
    redis.call('ZREM', P .. 'all', unpack(ids))
    redis.call('ZREM', key, unpack(ids))
    for queue, count in pairs(queues) do
        redis.call('HINCRBY', P .. 'gauge', queue .. '/' .. state, -count)
        redis.call('HINCRBY', P .. 'total', queue .. '/prune', count)
    end
    left = left - #ids
end

local function forget_tasks(digest)
    if redis.call('HINCRBY', P .. 'digests', digest, -1) <= 0 then
        redis.call('HDEL', P .. 'digests', digest)
        redis.call('DEL', P .. 'tasks/' .. digest)
    end
end

for _, each in ipairs(given[5]) do
    if left > 0 then remove(each[1], now - each[2]) end
end
local jobs = 1000 - left
if left == 0 then return {0, jobs, 0, 1} end
local old = redis.call('ZRANGEBYSCORE', P .. 'ended', '-inf', '(' .. whole(now - given[6]))
local sessions = 0
for _, id in ipairs(old) do
    if sessions < left and redis.call('SISMEMBER', P .. 'widowed', id) == 0 then
        local key = P .. 'session/' .. id
        local known = redis.call('HMGET', key, 'tasks', 'pools')
        forget_tasks(known[1])
        for _, digest in ipairs(cjson.decode(known[2])) do forget_tasks(digest) end
        redis.call('DEL', key, P .. 'held/' .. id, P .. 'cancels/' .. id)
        redis.call('ZREM', P .. 'ended', id)
        redis.call('ZREM', P .. 'sessions', id)
        sessions = sessions + 1
    end
end
return {0, jobs, sessions, sessions == left and 1 or 0}
