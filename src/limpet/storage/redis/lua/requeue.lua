-- requeue: move waiting jobs to another queue.
-- purpose: waiting to waiting in that queue, in the order that they had.
-- params:  given[4] jobs
--          given[5] queue
-- returns: {0, how many were moved}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: write

local queue, moved = given[5], 0
for _, id in ipairs(given[4]) do
    local r = find_row(id)
    if r and r.state <= BLOCKED and r.queue ~= queue then
        local reason = redis.call('HGET', P .. 'blocked', id)
        leave(r)
        gauge(r.queue, r.state, -1)
        r.queue, r.line = queue, queue .. '/' .. r.task
        enter(r, reason)
        count_moves(queue, 'requeue', nil, r.state, 1)
        record(r, 'requeued')
        moved = moved + 1
    end
end
finish()
return {0, moved}
