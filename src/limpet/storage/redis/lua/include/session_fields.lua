-- session_fields: every field of some sessions, in the order of their ids.

local function session_fields(ids)
    local sessions = {}
    for _, id in ipairs(ids) do
        sessions[#sessions + 1] = {id, redis.call('HGETALL', P .. 'session/' .. id)}
    end
    return sessions
end
