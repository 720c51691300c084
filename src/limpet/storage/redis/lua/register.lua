-- register: begin a session.
-- purpose: (nothing) to a live session; blocked jobs whose task it knows to ready.
-- params:  given[4] id
--          given[5] lease
--          given[6] digest of all its tasks
--          given[7] the tasks
--          given[8] digests of its pools with their tasks
--          given[9] pairs of field and value that describe the session
-- returns: {0, moment, digest of its tasks, epoch}
--          {1} a dead session has this id
-- include: frame
-- include: row
-- include: session
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family

if closed then return {-2} end
local id, lease = given[4], given[5]
local s = find_session(id)
if s then
    if s.state == DEAD then return {1} end
    return {0, whole(s.moment), s.tasks, meta[1]}
end

-- include: write
-- include: unblock

local moment = now_lease + lease
local digest, tasks = given[6], given[7]
local key = P .. 'session/' .. id
redis.call('HSET', key, 'state', LIVE, 'moment', whole(moment), 'lease', whole(lease), 'seq', 0,
    'count', 0, 'total', 0, 'rejected', '', 'tasks', digest, 'registered_at', whole(now),
    'renewed_at', whole(now), unpack(given[9]))
redis.call('HSET', P .. 'held/' .. id, '', string.rep('-', 65))
redis.call('ZADD', P .. 'moments', whole(moment), id)
redis.call('ZADD', P .. 'sessions', whole(now), id)
for _, task in ipairs(tasks) do
    redis.call('SADD', P .. 'tasks/' .. digest, task)
    redis.call('HINCRBY', P .. 'known', task, 1)
end
redis.call('HINCRBY', P .. 'digests', digest, 1)
for _, pool in ipairs(given[8]) do
    for _, task in ipairs(pool[2]) do redis.call('SADD', P .. 'tasks/' .. pool[1], task) end
    redis.call('HINCRBY', P .. 'digests', pool[1], 1)
end
unblock(digest)
finish()
return {0, whole(moment), digest, meta[1]}
