-- sessions: the sessions, newest first.
-- purpose: reads only.
-- params:  given[4] whether dead sessions are listed too
-- returns: {0, lease clock, id and fields of each}
-- include: frame
-- include: session_fields

local ids = {}
for _, id in ipairs(redis.call('ZREVRANGE', P .. 'sessions', 0, -1)) do
    if given[4] or redis.call('HGET', P .. 'session/' .. id, 'state') ~= 'dead' then
        ids[#ids + 1] = id
    end
end
return {0, whole(now_lease), session_fields(ids)}
