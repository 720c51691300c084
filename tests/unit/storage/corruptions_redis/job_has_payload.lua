-- a job without its payload
redis.call('HDEL', P .. 'job', (some(@state.ready)))
