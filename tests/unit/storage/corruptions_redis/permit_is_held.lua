-- a permit of a job that does not run
local id = some(@state.blocked)
local text = struct.pack('>I2', 5) .. 'web-1' .. cmsgpack.pack({1, 0, id, 'nobody', 'work', 1000, 0, false})
redis.call('ZADD', P .. 'permits', 0, text)
redis.call('HSET', P .. 'permit_of', id, text)
