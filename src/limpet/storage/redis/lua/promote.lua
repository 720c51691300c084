-- promote: let time take effect.
-- purpose: scheduled to ready when due; waiting to cancelled or failed when too late. At most a
--          thousand each.
-- params:  none.
-- returns: {0, ready, lapsed, 1 if there may be more, {id, when the next one is due} or {}}.
-- include: frame
-- include: unclosed
-- include: row
-- include: moves
-- include: write

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
    -- A claim passes over only so many of them: what is behind may be had now.
    if source == READY then rings.ready = true end
end
local due, ready = redis.call('ZRANGEBYSCORE', P .. 'scheduled', '-inf', whole(now), 'LIMIT', 0,
    1000), 0
for _, id in ipairs(due) do
    local r = find_row(id)
    if lapses_at(r) == NONE or lapses_at(r) > now then
        leave(r)
        r.state = READY
        enter(r)
        count_moves(r.queue, 'promote', SCHEDULED, READY, 1)
        ready = ready + 1
    end
end
finish()
local more = #due == 1000 or #late == 1000
local next_due = {}
for _, key in ipairs({'scheduled', 'lapse'}) do
    local first = redis.call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')
    if first[1] and (not next_due[1] or tonumber(first[2]) < tonumber(next_due[2])) then
        next_due = first
    end
end
return {0, ready, #late, more and 1 or 0, next_due}
