-- promote: let time take effect, and go on with what was too much for one step.
-- purpose: scheduled to ready when due; waiting to cancelled or failed when too late; failed to ready in
--          a new round when it is relaunched; turns that a rate allows again are given; committed flows
--          are written out; descendants of parents that are gone are cancelled. At most a thousand each.
-- params:  none
-- returns: {0, ready, lapsed, more, next_due, unreadable}
--          ready, lapsed: how many jobs became ready, and how many were too late
--          more: 1 if there may be more to do
--          next_due: {job or key, when it is due}, or {}
--          unreadable: parts of flows that cannot be read
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: flows
-- include: arrive
-- include: reopen
-- include: write
-- include: bounds

-- Parts of flows that cannot be read. They are passed over: else no flow would be written out any more.
local unreadable = {}

local function write_out()
    local left = 1000
    while true do
        local flow = redis.call('ZRANGE', P .. 'flows', 0, 0)[1]
        if not flow then
            -- Every parent for which children could have left their ends has come.
            redis.call('DEL', P .. 'ahead')
            return
        end
        local key = P .. 'flow/' .. flow
        local kept = redis.call('HMGET', key, 'chunks', 'at')
        local at, chunks = tonumber(kept[2]) or 0, tonumber(kept[1]) or 0
        local part = stored.packed(redis.call('HGET', key, at))
        if not part or not stored.number(part[1], 0) or type(part[5]) ~= 'table' then
            unreadable[#unreadable + 1] = flow .. ' ' .. at
            part = {0}
        end
        if part[1] > left then return end
        left = left - part[1]
        if part[1] > 0 then
            take_in({number = part[1], shapes = part[2], kinds = part[3], extras = part[4],
                texts = part[5], first = 1, flow = true})
        end
        if at + 1 >= chunks then
            redis.call('DEL', key)
            redis.call('ZREM', P .. 'flows', flow)
        else
            redis.call('HDEL', key, at, 'queues/' .. at)
            redis.call('HSET', key, 'at', at + 1)
        end
    end
end

-- Relaunch jobs that failed, unless another job holds their unique or their parent is gone.
local function relaunch()
    local due = redis.call('ZRANGEBYSCORE', P .. 'relaunch', '-inf', whole(now), 'LIMIT', 0, 1000)
    for _, id in ipairs(due) do
        redis.call('ZREM', P .. 'relaunch', id)
        local r = find_row(id)
        local parent = extra_of(r).parent and find_row(extra_of(r).parent)
        if r.state == FAILED and not unique_taken(r) and not (parent and parent.state > SUCCEEDED) then
            reopen(r, 'relaunched')
        end
    end
    return #due == 1000
end

local late = redis.call('ZRANGEBYSCORE', P .. 'lapse', '-inf', whole(now), 'LIMIT', 0, 1000)
for _, id in ipairs(late) do
    local r = find_row(id)
    local source = r.state
    local cause, event
    leave(r)
    if r.deadline_at ~= NONE and r.deadline_at <= now then
        r.state, event = FAILED, 'failed'
        cause = '{"kind":"DeadlinePassed","at":' .. whole(r.deadline_at) .. '}'
    else
        r.state, event = CANCELLED, 'cancelled'
        cause = '{"kind":"Expired","at":' .. whole(r.expires_at) .. '}'
    end
    r.finished_at = now
    enter(r)
    redis.call('HSET', P .. 'error', id, cause)
    record(r, event, nil, nil, cause)
    count_moves(r.queue, 'expire', source, r.state, 1)
    -- A claim passes over only so many of them: the jobs behind them may be claimed now.
    if source == READY then rings.ready = true end
end
local due, rows = redis.call('ZRANGEBYSCORE', P .. 'scheduled', '-inf', whole(now), 'LIMIT', 0, 1000),
    {}
for _, id in ipairs(due) do
    local r = find_row(id)
    if lapses_at(r) == NONE or lapses_at(r) > now then rows[#rows + 1] = r end
end
-- Jobs that are due together get turns of their keys in order.
table.sort(rows, comes_before)
for _, r in ipairs(rows) do
    leave(r)
    become_ready(r, 'promote', SCHEDULED)
end
local more = #due == 1000 or #late == 1000
more = relaunch() or more
for _, key in ipairs(redis.call('ZRANGEBYSCORE', P .. 'key_due', '-inf', whole(now), 'LIMIT', 0, 1000)) do
    redis.call('ZREM', P .. 'key_due', key)
    freed[key] = true
end
settle_rest()
write_out()
stop_kin()
finish()
if redis.call('EXISTS', P .. 'flows', P .. 'gone') > 0
    or redis.call('ZCOUNT', P .. 'key_due', '-inf', whole(now)) > 0 then
    more = true
end
-- Forget rates that have given out nothing ahead of now, and holds that are over.
redis.call('ZREMRANGEBYSCORE', P .. 'given', '-inf', whole(now))
if ruled and redis.call('ZREMRANGEBYSCORE', P .. 'holds', '-inf', whole(now)) > 0 then note_ruled() end
local next_due = {}
for _, key in ipairs({'scheduled', 'lapse', 'relaunch', 'key_due'}) do
    local first = redis.call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')
    if first[1] and (not next_due[1] or tonumber(first[2]) < tonumber(next_due[2])) then
        next_due = first
    end
end
return {0, made_ready, #late, more and 1 or 0, next_due, unreadable}
