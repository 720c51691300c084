-- hold_queue: claim nothing of a queue before a time.
-- purpose: for a user or a job; 0 ends the hold.
-- params:  given[4] queue
--          given[5] wall time
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
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
