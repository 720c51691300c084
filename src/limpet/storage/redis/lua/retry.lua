-- retry: open a new round of a finished job.
-- purpose: succeeded, failed or cancelled to ready, counters at zero.
-- params:  job, the round that the caller saw.
-- returns: {0, round}; {1} for a job that is not there; {2, state, round} for one that is not
--          finished or in another round.
-- include: frame
-- include: unclosed
-- include: row
-- include: moves

local r = find_row(given[4])
if not r then return {1} end
if r.round == given[5] + 1 then return {0, r.round} end
if r.state < SUCCEEDED or r.round ~= given[5] then return {2, STATES[r.state], r.round} end

-- include: write

local source = r.state
if source == SUCCEEDED then
    -- It wrote no event when it happened, and the row is about to forget it.
    record(r, 'succeeded', r.session, r.token, nil, r.claimed_at, 'complete', r.finished_at)
end
leave(r)
r.state, r.round, r.ready_at = READY, r.round + 1, now
r.failures, r.orphans, r.strikes = 0, 0, 0
r.suspect, r.last_run, r.begun, r.session = 0, 0, 0, ''
r.claimed_at, r.finished_at, r.requested_at = NONE, NONE, NONE
r.expires_at, r.deadline_at = NONE, NONE
enter(r)
for _, hash in ipairs({'result', 'result_secrets', 'error', 'progress'}) do
    redis.call('HDEL', P .. hash, r.id)
end
record(r, 'reopened')
count_moves(r.queue, 'reopen', source, READY, 1)
finish()
return {0, r.round}
