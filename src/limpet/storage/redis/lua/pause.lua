-- pause: stop or resume claiming from a queue.
-- purpose: nothing is claimed from a paused queue.
-- params:  given[4] queue
--          given[5] whether it is paused
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: write

redis.call(given[5] and 'SADD' or 'SREM', P .. 'paused', given[4])
return {0}
