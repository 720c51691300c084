-- a failed job with a result
redis.call('HSET', P .. 'result', (some(@state.failed)), '1')
