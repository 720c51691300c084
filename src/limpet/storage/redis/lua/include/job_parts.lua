-- job_parts: everything that is kept of some jobs, in the order that rows.py reads. Needs row.lua.

local PARTS = {'row', 'job', 'extra', 'result', 'result_secrets', 'error', 'progress', 'blocked',
    'pending'}

local function job_parts(ids)
    local jobs = {}
    if #ids == 0 then return jobs end
    for place, id in ipairs(ids) do jobs[place] = {id} end
    for _, part in ipairs(PARTS) do
        for place, value in ipairs(redis.call('HMGET', P .. part, unpack(ids))) do
            if part == 'row' then value = present(ids[place], value) end
            jobs[place][#jobs[place] + 1] = value
        end
    end
    for place, at in ipairs(redis.call('ZMSCORE', P .. 'relaunch', unpack(ids))) do
        jobs[place][#jobs[place] + 1] = at
    end
    return jobs
end
