-- a blocked job that nothing unblocks
local id = some(@state.blocked)
redis.call('ZREM', P .. 'needs/task:stranger', id)
