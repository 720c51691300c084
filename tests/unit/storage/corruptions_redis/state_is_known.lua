-- a job in a state that is not in the table
local id, row = some(@state.quarantined)
put(id, row, @row.state, '\9')
redis.call('HINCRBY', P .. 'gauge', 'default/quarantined', -1)
redis.call('ZREM', P .. 'quarantined', id)
