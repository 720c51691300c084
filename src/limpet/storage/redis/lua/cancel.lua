-- cancel: cancel a job for a user.
-- purpose: waiting or quarantined to cancelled; running to running with cancellation requested; a failed
--          job is not relaunched any more.
-- params:  given[4] job
--          given[5] cause (JSON)
-- returns: {0, state after it}
--          {1} the job is not there
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family

local r = find_row(given[4])
if not r then return {1} end
local relaunches = r.state == FAILED and redis.call('ZSCORE', P .. 'relaunch', r.id)
if (r.state >= SUCCEEDED and not relaunches) or (r.state == RUNNING and r.requested_at ~= NONE) then
    return {0, STATES[r.state]}
end

-- include: write

if relaunches then
    redis.call('ZREM', P .. 'relaunch', r.id)
elseif r.state == RUNNING then
    request_cancel(r, given[5])
else
    cancel_waiting(r, given[5])
end
finish()
return {0, STATES[r.state]}
