-- a running job whose session is gone
local id, row = some(4)
redis.call('DEL', P .. 'session/' .. string.sub(row, 102, 101 + string.byte(row, 101)))
