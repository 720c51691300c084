-- limit_queue: set rules of a queue at run time.
-- purpose: they replace the declared rules from the next claim on.
-- params:  given[4] queue
--          given[5] rules (JSON: concurrency, rate, weight; '' removes them)
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
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
