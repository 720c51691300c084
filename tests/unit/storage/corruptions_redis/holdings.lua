-- a digest that is not that of what is held
local id = redis.call('ZRANGE', P .. 'moments', 0, 0)[1]
redis.call('HINCRBY', P .. 'session/' .. id, 'total', 1)
