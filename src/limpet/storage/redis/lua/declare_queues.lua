-- declare_queues: keep the rules of queues that the app declares.
-- purpose: a queue that is not named keeps the rules that were declared before.
-- params:  given[4] pairs of queue and rules (JSON: concurrency, rate, weight; '' for none)
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: write
-- include: bounds

for at = 1, #given[4], 2 do
    local queue, rules = given[4][at], given[4][at + 1]
    if rules == '' then
        redis.call('HDEL', P .. 'declared', queue)
    elseif redis.call('HGET', P .. 'declared', queue) ~= rules then
        redis.call('HSET', P .. 'declared', queue, rules)
        rings.ready = true
    end
end
note_ruled()
finish()
return {0}
