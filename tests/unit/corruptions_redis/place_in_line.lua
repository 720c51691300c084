-- a ready job a little behind its place
local id = some(2)
redis.call('ZINCRBY', P .. 'ready/default/work', 1, id)
