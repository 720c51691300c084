-- unblock: blocked to ready for jobs whose task a session knows, at most a thousand at a time; a job
--          with a key may then have to wait for its turn. Needs after.lua.

local function unblock(tasks)
    local left = 1000
    if redis.call('EXISTS', P .. 'blocked') == 0 then return end
    for _, task in ipairs(redis.call('SMEMBERS', P .. 'tasks/' .. tasks)) do
        local ids = left > 0 and redis.call('ZRANGE', P .. 'needs/task:' .. task, 0, left - 1) or {}
        for _, id in ipairs(ids) do
            local r = find_row(id)
            leave(r)
            become_ready(r, 'unblock', BLOCKED)
            record(r, 'unblocked')
        end
        left = left - #ids
    end
end
