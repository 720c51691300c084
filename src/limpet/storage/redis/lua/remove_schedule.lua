-- remove_schedule: remove a schedule.
-- purpose: a schedule to (nothing); its jobs stay.
-- params:  given[4] id
-- returns: {0, 1 if there was one}
-- include: frame
-- include: unclosed
-- include: write

redis.call('ZREM', P .. 'ticks', given[4])
return {0, redis.call('HDEL', P .. 'schedules', given[4])}
