-- stage: keep jobs aside under the name of a flow, where nobody sees them.
-- purpose: they become the part of the flow with that place, or replace it. A committed flow stays as it is.
-- params:  given[4] flow
--          given[5] place
--          given[6] the jobs (a batch as msgpack, see include/arrive.lua and flow.py)
--          given[7] how many jobs there are for each queue (msgpack)
-- returns: {0}
-- why:     at the memory limit the server refuses the first write, as it refuses that of enqueue.
-- include: frame
-- include: unclosed

redis.call('EXISTS', P .. 'scratch')
local flow = given[4]
if redis.call('ZSCORE', P .. 'committed', flow) then return {0} end
redis.call('HSET', P .. 'flow/' .. flow, given[5], given[6], 'queues/' .. given[5], given[7])
redis.call('ZADD', P .. 'staged', 'NX', whole(now), flow)
return {0}
