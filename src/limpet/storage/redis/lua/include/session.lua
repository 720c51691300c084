-- session: a session's row and what it may still do.

local LIVE, DRAINING, PAST, DEAD = 'live', 'draining', 'past', 'dead'

local function find_session(id)
    local row = redis.call('HMGET', P .. 'session/' .. id, 'state', 'moment', 'lease', 'seq',
        'count', 'total', 'tasks', 'next_at', 'unfinished', 'passed_over')
    if not row[1] then return nil end
    return {id = id, state = row[1], moment = tonumber(row[2]), lease = tonumber(row[3]),
        seq = tonumber(row[4]), count = tonumber(row[5]), total = tonumber(row[6]), tasks = row[7],
        more = row[8] or row[9] or row[10]}
end

local function standing(s)
    if s.state == DEAD then return DEAD end
    if s.moment <= now_lease then return PAST end
    return s.state
end
