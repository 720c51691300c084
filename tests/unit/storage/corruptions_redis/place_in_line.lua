-- a ready job a little behind its place
local id, row = some(@state.ready)
redis.call('ZINCRBY', P .. 'ready/default/work', 1, string.sub(row, @row.number, @row.number.last) .. id)
