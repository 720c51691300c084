-- relocate: one step of a move to another place; see storage/contract/relocation.py.
-- purpose: close a store for all writers, or open it again.
-- params:  given[4] the record that the caller saw
--          given[5] the record that it wants
--          given[6] the stage that every verb is to see, '' for an open store
--          given[7] what must hold: 'idle', 'empty' or ''
--          (records are JSON, '' for none)
-- returns: {0, done, found, running, jobs, sessions}
--          done: 1 if the wanted record is there now
--          found: the record that was found
--          running, jobs, sessions: how many jobs run, how many jobs and living sessions there are
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
    -- Flows and descendants that promote has still to write out or to cancel count as running.
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
