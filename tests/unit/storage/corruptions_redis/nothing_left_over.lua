-- a line of a job that is gone
redis.call('RPUSH', P .. 'log/gone', 'x')
