-- a job without its payload
redis.call('HDEL', P .. 'job', (some(2)))
