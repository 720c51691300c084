-- reopen: a new round of a finished job. Needs after.lua.

-- Another job that holds the unique of this one, or nil.
local function unique_taken(r)
    local unique = extra_of(r).unique
    local other = unique and unique_holder(r.task, unique)
    return other and other.id ~= r.id and other or nil
end

local function reopen(r, event)
    local source = r.state
    if source == SUCCEEDED then
        -- The success wrote no event, and the row is about to forget it.
        record(r, 'succeeded', r.session, r.token, nil, r.claimed_at, 'complete', r.finished_at)
    end
    leave(r)
    r.round, r.ready_at = r.round + 1, now
    r.failures, r.orphans, r.strikes = 0, 0, 0
    r.suspect, r.last_run, r.begun, r.session = 0, 0, 0, ''
    r.claimed_at, r.finished_at, r.requested_at = NONE, NONE, NONE
    r.expires_at, r.deadline_at = NONE, NONE
    become_ready(r, 'reopen', source)
    for _, hash in ipairs({'result', 'result_secrets', 'error', 'progress'}) do
        redis.call('HDEL', P .. hash, r.id)
    end
    redis.call('ZREM', P .. 'relaunch', r.id)
    local unique = extra_of(r).unique
    if unique then redis.call('HSET', P .. 'unique', r.task .. '/' .. unique, r.id) end
    record(r, event)
end
