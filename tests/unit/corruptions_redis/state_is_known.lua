-- a job in a state that is not in the table
local id, row = some(5)
put(id, row, 1, '\9')
redis.call('HINCRBY', P .. 'gauge', 'default/quarantined', -1)
redis.call('ZREM', P .. 'quarantined', id)
