-- outcome: what becomes of a job whose attempt is over, but for a plain success.
-- purpose: running to where an unhappy outcome takes it; which counter it costs is decided as in
--          domain/transition.py (after_loss). Needs permits.lua.

local MOST_ORPHANS, MOST_STRIKES = 10, 3

-- Jobs that have left running; their permits are taken back before a claim, or at the end.
local left_running = {}

closers[#closers + 1] = function()
    if permits.take_back(left_running) then rings.ready = true end
    left_running = {}
end

-- `how`: {move, target, event, cause, ready_at, accepted, settled, started, keep_error, ran_alone, reason}.
-- `settled` is the settlement that was accepted, where it is not the move; `reason` is for a blocked job.
local function leave_running(r, how)
    local session = r.session
    leave(r)
    left_running[#left_running + 1] = r.id
    if how.ready_at then r.ready_at = how.ready_at end
    -- `expires` counts only until the first start.
    if r.begun == 1 or how.started then r.expires_at = NONE end
    if how.ran_alone then r.suspect = 0 end
    r.state = how.target
    r.begun = 0
    r.finished_at = how.target >= SUCCEEDED and now or NONE
    -- The row forgets a dead holder, so that the holder never gets the answer `already`.
    if not how.accepted then r.session = '' end
    enter(r, how.reason)
    count_moves(r.queue, how.move, RUNNING, how.target, 1)
    record(r, how.event, session, r.token, how.cause, r.claimed_at,
        how.accepted and (how.settled or how.move))
    if how.cause and how.keep_error then redis.call('HSET', P .. 'error', r.id, how.cause) end
end

-- The cause of the request to cancel a job, with the reason that the user gave.
local function request_cause(id)
    local cause = '{"kind":"Requested","reason":""}'
    for _, event in ipairs(last_events_of(id)) do
        if event[2] == 'cancel_requested' and event[5] then cause = event[5] end
    end
    return cause
end

local function cancel_running(r, move, cause, accepted, settled)
    leave_running(r, {move = move, target = CANCELLED, event = 'cancelled',
        cause = cause or request_cause(r.id), accepted = accepted, settled = settled, keep_error = true,
        ran_alone = move == 'retry' or move == 'snooze' or move == 'fan_out'})
end

local function release_one(r, cause)
    if r.requested_at ~= NONE then return cancel_running(r, 'release', nil, true) end
    leave_running(r, {move = 'release', target = READY, event = 'released', cause = cause,
        accepted = true})
end

-- `alone` is nil when the whole worker was lost: then no job is suspected.
local function lose_one(r, move, cause, begun, charged, alone, accepted)
    if r.requested_at ~= NONE then
        cancel_running(r, move, cause, accepted)
        return CANCELLED
    end
    local event = move == 'orphan' and 'orphaned' or 'recovered'
    local how = {move = move, target = READY, event = event, cause = cause, accepted = accepted,
        started = begun}
    if not begun or not charged then
        leave_running(r, how)
        return READY
    end
    local capped
    r.orphans = r.orphans + 1
    if alone then r.strikes = r.strikes + 1 end
    if r.strikes >= MOST_STRIKES then
        capped = '{"kind":"TooManyStrikes","count":' .. r.strikes .. '}'
    elseif r.orphans >= MOST_ORPHANS then
        capped = '{"kind":"TooManyOrphans","count":' .. r.orphans .. '}'
    end
    if capped and (not flagged(r.flags, HOOK) or r.last_run == 1) then
        -- First the loss, then what it led to, so that the timeline lists every cause.
        record(r, event, r.session, r.token, cause, r.claimed_at, accepted and move)
        how.target, how.event, how.cause, how.keep_error = FAILED, 'failed', capped, true
    else
        r.last_run = capped and 1 or 0
    end
    -- A suspect stays one until it has run alone to an end.
    if alone ~= nil then r.suspect = 1 end
    leave_running(r, how)
    return how.target
end

local function again(r, move, at, cause)
    if move == 'retry' then r.failures = r.failures + 1 end
    if r.requested_at ~= NONE then return cancel_running(r, move, cause, true) end
    local how = {move = move, accepted = true, started = true, ran_alone = true, keep_error = true,
        cause = cause}
    if r.deadline_at ~= NONE and at >= r.deadline_at then
        how.target, how.event = FAILED, 'failed'
        how.cause = cause or '{"kind":"DeadlinePassed","at":' .. whole(r.deadline_at) .. '}'
    else
        how.target, how.ready_at = SCHEDULED, at
        how.event = move == 'retry' and 'retried' or 'snoozed'
    end
    leave_running(r, how)
end

-- Running to blocked until the children of a staged flow are finished; the flow is committed here.
local function fan_out(r, flow, chunks, children, incomplete)
    if r.requested_at ~= NONE then
        drop_flow(flow)
        return cancel_running(r, 'fan_out', nil, true)
    end
    if not is_whole(flow, chunks) then
        -- However often the fan-out is repeated, the missing part would never be there.
        r.failures = r.failures + 1
        return leave_running(r, {move = 'fail', target = FAILED, event = 'failed', cause = incomplete,
            accepted = true, settled = 'fan_out', keep_error = true})
    end
    commit_flow(flow, chunks)
    family_moved = true
    if not flagged(r.flags, FAMILY) then r.flags = r.flags + FAMILY end
    redis.call('HSET', P .. 'pending', r.id, math.max(children, 1))
    leave_running(r, {move = 'fan_out', target = BLOCKED, event = 'fanned_out', accepted = true,
        started = true, ran_alone = true, reason = 'children:'})
    if children < 1 then count_down(r, 1) end
end

-- Add what a job counted to the totals of its queue, unless a total would be too large for a number.
local function add_counts(queue, counts)
    for _, pair in ipairs(counts) do
        redis.pcall('HINCRBY', P .. 'total', queue .. '/count:' .. pair[1], whole(pair[2]))
    end
end

local function complete_one(r, result, secrets)
    leave(r)
    left_running[#left_running + 1] = r.id
    r.state = SUCCEEDED
    r.finished_at = now
    enter(r)
    count_moves(r.queue, 'complete', RUNNING, SUCCEEDED, 1)
    redis.call('HDEL', P .. 'error', r.id)
    if result then redis.call('HSET', P .. 'result', r.id, result) end
    if secrets then redis.call('HSET', P .. 'result_secrets', r.id, secrets) end
end

-- One settlement as settle.py lists it: place, move, job, token, holder, then what the move needs.
local function apply(r, settlement)
    local move = settlement[2]
    if move == 'complete' then
        complete_one(r, settlement[6], settlement[7])
        if settlement[8] then add_counts(r.queue, settlement[8]) end
    elseif move == 'retry' or move == 'snooze' then
        if settlement[8] then hold_queue(r.queue, settlement[6]) end
        again(r, move, settlement[6], settlement[7])
    elseif move == 'fan_out' then
        fan_out(r, settlement[6], settlement[7], settlement[8], settlement[9])
    elseif move == 'fail' then
        r.failures = r.failures + 1
        if settlement[7] and r.requested_at == NONE then
            redis.call('ZADD', P .. 'relaunch', whole(settlement[7]), r.id)
        end
        leave_running(r, {move = move, target = FAILED, event = 'failed', cause = settlement[6],
            accepted = true, keep_error = true})
    elseif move == 'quarantine' and r.requested_at == NONE then
        leave_running(r, {move = move, target = QUARANTINED, event = 'quarantined',
            cause = settlement[6], accepted = true, keep_error = true})
    elseif move == 'quarantine' or move == 'cancel' then
        -- Nobody would repair a job that is not wanted; it would wait for ever.
        cancel_running(r, 'cancel', nil, true, move)
    elseif move == 'release' then
        release_one(r, settlement[6])
    else
        lose_one(r, 'orphan', settlement[6], settlement[8], settlement[7], settlement[9], true)
    end
end
