-- expire: mark sessions dead whose moment was over when that was asked.
-- purpose: live or draining to dead.
-- params:  the lease clock when it was asked.
-- returns: {0, lease clock, the fields of every dead session that still has jobs}.
-- include: frame
-- include: session
-- include: write
-- include: death
-- include: told_sessions

local asked = math.min(given[4], now_lease)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'moments', '-inf', whole(asked))) do
    local s = find_session(id)
    -- On a server that has just taken over, everyone gets the time to say that they are there.
    if moved_at == 0 or asked >= moved_at + s.lease then
        local seen = redis.call('HGET', P .. 'session/' .. id, 'renewed_at')
        die(s, '{"kind":"WorkerVanished","last_seen":' .. seen .. '}', true)
    end
end
local widowed = redis.call('SMEMBERS', P .. 'widowed')
table.sort(widowed)
return {0, whole(now_lease), told_sessions(widowed)}
