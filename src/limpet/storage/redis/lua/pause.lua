-- pause: stop or resume claiming from a queue.
-- purpose: a paused queue is not claimed from.
-- params:  queue, whether it is paused.
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: write

redis.call(given[5] and 'SADD' or 'SREM', P .. 'paused', given[4])
return {0}
