-- a blocked job that nothing unblocks
local id = some(3)
redis.call('ZREM', P .. 'needs/task:stranger', id)
