-- cargo: the next jobs to carry to another store.
-- purpose: reads only.
-- params:  given[4] number of the last job that was carried
--          given[5] most jobs
--          given[6] about how many bytes
-- returns: {0, jobs, events, lines, more}
--          jobs: the parts of each job, as include/job_parts.lua lists them
--          events: those of each job (msgpack)
--          lines: the log lines of each job (msgpack)
--          more: 1 if there may be more jobs
-- include: frame
-- include: row
-- include: job_parts

local ids = redis.call('ZRANGEBYSCORE', P .. 'all', '(' .. whole(given[4]), '+inf', 'LIMIT', 0,
    given[5])
local more = #ids == given[5]
local bytes, events, lines, taken = 0, {}, {}, {}
for place, id in ipairs(ids) do
    local timeline = redis.call('LRANGE', P .. 'events/' .. id, 0, -1)
    local log = redis.call('LRANGE', P .. 'log/' .. id, 0, -1)
    bytes = bytes + redis.call('HSTRLEN', P .. 'job', id) + redis.call('HSTRLEN', P .. 'result', id)
    for _, entry in ipairs(timeline) do bytes = bytes + #entry end
    for _, entry in ipairs(log) do bytes = bytes + #entry end
    if bytes > given[6] and place > 1 then
        more = true
        break
    end
    taken[place], events[place], lines[place] = id, timeline, log
end
return {0, job_parts(taken), events, lines, more and 1 or 0}
