-- drain_queue: let a queue take no new jobs, or take them again.
-- purpose: jobs that are in the queue go on.
-- params:  given[4] queue
--          given[5] whether it is drained
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: write
-- include: bounds

redis.call(given[5] and 'SADD' or 'SREM', P .. 'draining', given[4])
note_ruled()
return {0}
