-- death: live or draining to dead, for ever; the permit of a caller outside is taken back. Needs permits.lua.

local freed_room = false

-- Ring for those that wait for room on a host; a script does this last.
local function ring_if_freed()
    if freed_room then redis.pcall('PUBLISH', P .. 'ready', 'ready') end
end

local function die(s, cause, charged)
    redis.call('HSET', P .. 'session/' .. s.id, 'state', DEAD, 'ended_at', whole(now), 'cause',
        cause, 'charged', charged and 1 or 0)
    redis.call('ZREM', P .. 'moments', s.id)
    redis.call('ZADD', P .. 'ended', whole(now), s.id)
    -- What the session holds decides, and not only the count; one field of the hash has no name.
    if s.count > 0 or redis.call('HLEN', P .. 'held/' .. s.id) > 1 then redis.call('SADD', P .. 'widowed', s.id) end
    for _, task in ipairs(redis.call('SMEMBERS', P .. 'tasks/' .. s.tasks)) do
        redis.call('HINCRBY', P .. 'known', task, -1)
    end
    if permits.take_back({s.id}) then freed_room = true end
end
