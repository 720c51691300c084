-- expire: mark sessions dead whose lease was over when the caller looked.
-- purpose: live or draining to dead; a lease that was given by a clock that has been set back since
--          ends one lease from now.
-- params:  given[4] the lease clock when the caller looked
--          given[5] the longest lease that is ended, false for no limit
-- returns: {0, lease clock, the fields of every dead session that still has jobs}
-- include: frame
-- include: session
-- include: write
-- include: permits
-- include: death
-- include: session_fields

local overdue_at, longest = math.min(given[4], now_lease), given[5]
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'moments', '-inf', whole(overdue_at))) do
    local s = find_session(id)
    -- On a server that has just taken over, every session gets the time for a renewal.
    local had_time = s and (moved_at == 0 or overdue_at >= moved_at + s.lease)
    if had_time and not (longest and s.lease > longest) then
        local seen = stored.number(redis.call('HGET', P .. 'session/' .. id, 'renewed_at'), 0) or 0
        die(s, '{"kind":"WorkerVanished","last_seen":' .. whole(seen) .. '}', true)
    end
end
local later = redis.call('ZRANGEBYSCORE', P .. 'moments', '(' .. whole(now_lease), '+inf')
for _, id in ipairs(later) do
    local s = find_session(id)
    if s and s.moment > now_lease + s.lease then
        local moment = whole(now_lease + s.lease)
        redis.call('HSET', P .. 'session/' .. id, 'moment', moment)
        redis.call('ZADD', P .. 'moments', moment, id)
    end
end
local widowed = redis.call('SMEMBERS', P .. 'widowed')
table.sort(widowed)
local sessions = session_fields(widowed)
ring_if_freed()
return {0, whole(now_lease), sessions}
