-- told_jobs: everything that is kept of jobs, in the order that rows.py reads; needs row.lua.

local PARTS = {'row', 'job', 'extra', 'result', 'result_secrets', 'error', 'progress', 'blocked',
    'pending'}

local function told_jobs(ids)
    local told = {}
    if #ids == 0 then return told end
    for place, id in ipairs(ids) do told[place] = {id} end
    for _, part in ipairs(PARTS) do
        for place, value in ipairs(redis.call('HMGET', P .. part, unpack(ids))) do
            if part == 'row' then value = present(ids[place], value) end
            told[place][#told[place] + 1] = value
        end
    end
    for place, at in ipairs(redis.call('ZMSCORE', P .. 'relaunch', unpack(ids))) do
        told[place][#told[place] + 1] = at
    end
    return told
end
