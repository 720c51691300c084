-- limit_queue: rules of a queue that were set at run time.
-- purpose: over what is declared, from the next claim on.
-- params:  queue, rules (JSON: concurrency, rate, weight; '' takes them back).
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: row
-- include: keys
-- include: moves
-- include: write
-- include: bounds

if given[5] == '' then
    redis.call('HDEL', P .. 'adjusted', given[4])
else
    redis.call('HSET', P .. 'adjusted', given[4], given[5])
end
note_ruled()
rings.ready = true
finish()
return {0}
