-- a dead session without a cause
local id = redis.call('ZRANGE', P .. 'ended', 0, 0)[1]
redis.call('HDEL', P .. 'session/' .. id, 'cause')
