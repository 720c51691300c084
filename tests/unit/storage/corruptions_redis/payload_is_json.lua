-- a result that was cut off
redis.call('HSET', P .. 'result', (some(@state.succeeded)), '[1')
