-- a result that was cut off
redis.call('HSET', P .. 'result', (some(6)), '[1')
