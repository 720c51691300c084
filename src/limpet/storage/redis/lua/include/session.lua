-- session: the fields of a session, and what it may still do.

local LIVE, DRAINING, PAST, DEAD = 'live', 'draining', 'past', 'dead'

local function find_session(id)
    local row = redis.call('HMGET', P .. 'session/' .. id, 'state', 'moment', 'lease', 'seq',
        'count', 'total', 'tasks', 'next_at', 'unfinished', 'passed_over')
    if not (row[1] or row[2] or row[3]) then return nil end
    -- A field into which somebody wrote nonsense has its default; that of the lease is 10 s.
    return {id = id, state = (row[1] == DRAINING or row[1] == DEAD) and row[1] or LIVE,
        moment = tonumber(row[2]) or 0, lease = stored.lease(row[3]) or 10000000,
        seq = tonumber(row[4]) or 0, count = tonumber(row[5]) or 0, total = tonumber(row[6]) or 0,
        tasks = row[7] or '', more = row[8] or row[9] or row[10]}
end

local function standing(s)
    if s.state == DEAD then return DEAD end
    if s.moment <= now_lease then return PAST end
    return s.state
end
