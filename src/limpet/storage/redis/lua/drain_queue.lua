-- drain_queue: a queue takes in no new jobs, or does again.
-- purpose: what it has goes on.
-- params:  queue, whether it is drained.
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: row
-- include: keys
-- include: moves
-- include: write
-- include: bounds

redis.call(given[5] and 'SADD' or 'SREM', P .. 'draining', given[4])
note_ruled()
return {0}
