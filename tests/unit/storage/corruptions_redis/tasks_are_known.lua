-- a task that seems to be known by one more worker
redis.call('HINCRBY', P .. 'known', 'work', 1)
