-- an event under a token that the job has not reached
local id = some(@state.failed)
redis.call('RPUSH', P .. 'events/' .. id, cmsgpack.pack({1, 'retried', 's', 2 ^ 52, false, false, 'retry'}))
