-- a ready job a little behind its place
local id, row = some(2)
redis.call('ZINCRBY', P .. 'ready/default/work', 1, string.sub(row, 95, 100) .. id)
