-- a failed job with a result
redis.call('HSET', P .. 'result', (some(7)), '1')
