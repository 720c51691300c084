-- a turn that no job has
redis.call('HSET', P .. 'turns', 'customer', 4)
