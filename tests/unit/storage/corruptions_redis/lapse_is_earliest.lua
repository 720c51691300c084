-- a job that lapses though it never expires
redis.call('ZADD', P .. 'lapse', 1, (some(@state.ready)))
