-- death: live or draining to dead, for ever; what was permitted to a caller is not any more. Needs
--        permits.lua.

local freed_room = false

-- Tell those that wait for room; the last thing that a script does.
local function ring_if_freed()
    if freed_room then redis.pcall('PUBLISH', P .. 'ready', 'ready') end
end

local function die(s, cause, charged)
    redis.call('HSET', P .. 'session/' .. s.id, 'state', DEAD, 'ended_at', whole(now), 'cause',
        cause, 'charged', charged and 1 or 0)
    redis.call('ZREM', P .. 'moments', s.id)
    redis.call('ZADD', P .. 'ended', whole(now), s.id)
    -- What it holds counts, not what is said of that; there is one field without a name.
    if s.count > 0 or redis.call('HLEN', P .. 'held/' .. s.id) > 1 then redis.call('SADD', P .. 'widowed', s.id) end
    for _, task in ipairs(redis.call('SMEMBERS', P .. 'tasks/' .. s.tasks)) do
        redis.call('HINCRBY', P .. 'known', task, -1)
    end
    if permits.take_back({s.id}) then freed_room = true end
end
