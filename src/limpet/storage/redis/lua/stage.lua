-- stage: keep jobs aside under the name of a flow, where nobody sees them.
-- purpose: the part that has that place, or takes it. One that is committed stays as it is.
-- params:  flow, place, the jobs (a batch as msgpack, see include/arrive.lua and flow.py), how many of each
--          queue (msgpack).
-- returns: {0}.
-- why:     its first write is refused when the server is at its memory limit, as that of an enqueue.
-- include: frame
-- include: unclosed

redis.call('EXISTS', P .. 'scratch')
local flow = given[4]
if redis.call('ZSCORE', P .. 'committed', flow) then return {0} end
redis.call('HSET', P .. 'flow/' .. flow, given[5], given[6], 'queues/' .. given[5], given[7])
redis.call('ZADD', P .. 'staged', 'NX', whole(now), flow)
return {0}
