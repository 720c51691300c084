-- a ready job that waits for children
local id = some(2)
redis.call('HSET', P .. 'pending', id, 1)
