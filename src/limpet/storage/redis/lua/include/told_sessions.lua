-- told_sessions: every field of sessions, in the order of their ids.

local function told_sessions(ids)
    local told = {}
    for _, id in ipairs(ids) do
        told[#told + 1] = {id, redis.call('HGETALL', P .. 'session/' .. id)}
    end
    return told
end
