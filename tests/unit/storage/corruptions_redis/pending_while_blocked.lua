-- a ready job that waits for children
local id = some(@state.ready)
redis.call('HSET', P .. 'pending', id, 1)
