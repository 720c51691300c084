-- a unique of a job that does not have it
redis.call('HSET', P .. 'unique', 'work/only', (some(@state.ready)))
