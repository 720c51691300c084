-- discard: remove what has arrived, a thousand jobs at a time.
-- purpose: any state to (nothing), with everything told about the job.
-- params:  the move.
-- returns: {0, 1 if there is more}; {1} for a store that is not being filled by that move.
-- include: frame
-- include: row
-- include: moves
-- include: at_stage

if not is_at('emptying') then return {1} end

-- include: write

local ids = redis.call('ZRANGE', P .. 'all', 0, 999)
if #ids == 0 then
    redis.call('DEL', P .. 'total', P .. 'paused', P .. 'latest')
    return {0, 0}
end
local keys = {}
for _, id in ipairs(ids) do
    local r = find_row(id)
    leave(r)
    gauge(r.queue, r.state, -1)
    keys[#keys + 1] = P .. 'events/' .. id
    keys[#keys + 1] = P .. 'log/' .. id
end
redis.call('DEL', unpack(keys))
for _, hash in ipairs({'job', 'row', 'extra', 'result', 'result_secrets', 'error', 'progress'}) do
    redis.call('HDEL', P .. hash, unpack(ids))
end
redis.call('ZREM', P .. 'all', unpack(ids))
finish()
return {0, #ids == 1000 and 1 or 0}
