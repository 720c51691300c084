-- relocate: one step of a move to another place; see storage/relocation.py.
-- purpose: close a store for all that write, or open it again.
-- params:  the record that the caller saw, the one that it wants, what every verb is to see ('' for
--          an open store), what must hold: 'idle', 'empty' or ''. Records are JSON, '' for none.
-- returns: {0, 1 if it is so now, the record that was found, jobs that run, jobs, living sessions}.
-- include: frame
-- include: write

local was, wanted, shut, need = given[4], given[5], given[6], given[7]
local found = redis.call('HGET', KEYS[1], 'relocation') or ''
if found == wanted then return {0, 1, found, 0, 0, 0} end
if found ~= was then return {0, 0, found, 0, 0, 0} end
if need ~= '' then
    local running, jobs = 0, redis.call('HLEN', P .. 'row')
    local gauges = redis.call('HGETALL', P .. 'gauge')
    for at = 1, #gauges, 2 do
        if string.sub(gauges[at], -8) == '/running' then running = running + gauges[at + 1] end
    end
    -- What promote has still to write out or to cancel is under way too.
    running = running + redis.call('ZCARD', P .. 'flows') + redis.call('ZCARD', P .. 'gone')
    local sessions = redis.call('ZCARD', P .. 'moments')
    if (need == 'idle' and running > 0) or (need == 'empty' and jobs + sessions > 0) then
        return {0, 0, found, running, jobs, sessions}
    end
end
redis.call('HDEL', KEYS[1], 'relocation', 'closed', 'cursor')
if wanted ~= '' then redis.call('HSET', KEYS[1], 'relocation', wanted) end
if shut ~= '' then redis.call('HSET', KEYS[1], 'closed', shut) end
return {0, 1, wanted, 0, 0, 0}
