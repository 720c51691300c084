-- hold_queue: nothing of a queue is claimed before a time.
-- purpose: as a person or a job says; 0 takes it back.
-- params:  queue, wall time.
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: row
-- include: keys
-- include: moves
-- include: write
-- include: bounds

if given[5] > now then
    redis.call('ZADD', P .. 'holds', whole(given[5]), given[4])
else
    redis.call('ZREM', P .. 'holds', given[4])
    rings.ready = true
end
note_ruled()
finish()
return {0}
