-- a parent with a child that is none of its own
local id = some(@state.ready)
redis.call('ZADD', P .. 'children/' .. some(@state.blocked), 1, id)
