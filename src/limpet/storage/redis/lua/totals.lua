-- totals: how often each move was made, by queue.
-- purpose: reads only.
-- params:  none
-- returns: {0, pairs of queue/move and count}
-- include: frame

return {0, redis.call('HGETALL', P .. 'total')}
