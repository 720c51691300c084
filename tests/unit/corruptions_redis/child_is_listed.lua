-- a parent with a child that is none of its own
local id = some(2)
redis.call('ZADD', P .. 'children/' .. some(3), 1, id)
