-- a schedule that is not there and still ticks
redis.call('ZADD', P .. 'ticks', 1, 'gone')
