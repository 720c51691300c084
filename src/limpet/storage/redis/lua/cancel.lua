-- cancel: on a person's word.
-- purpose: waiting or quarantined to cancelled; running to cancel requested.
-- params:  job, cause as JSON.
-- returns: {0, state after it}; {1} for a job that is not there.
-- include: frame
-- include: unclosed
-- include: row
-- include: moves

local r = find_row(given[4])
if not r then return {1} end
if r.state >= SUCCEEDED or (r.state == RUNNING and r.requested_at ~= NONE) then
    return {0, STATES[r.state]}
end

-- include: write

local cause = given[5]
local source = r.state
if source == RUNNING then
    r.requested_at = now
    redis.call('HSET', P .. 'row', r.id, row_text(r))
    redis.call('SADD', P .. 'cancels/' .. r.session, r.id)
    local key = P .. 'held/' .. r.session
    redis.call('HSET', key, r.id, '\1' .. string.sub(redis.call('HGET', key, r.id), 2))
    record(r, 'cancel_requested', r.session, r.token, cause, r.claimed_at)
    rings.cancel = true
else
    leave(r)
    r.state = CANCELLED
    r.finished_at = now
    r.requested_at = now
    enter(r)
    redis.call('HSET', P .. 'error', r.id, cause)
    record(r, 'cancelled', nil, nil, cause)
    count_moves(r.queue, 'cancel', source, CANCELLED, 1)
end
finish()
return {0, STATES[r.state]}
