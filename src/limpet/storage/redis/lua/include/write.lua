-- write: what every script that writes has, but for enqueue.
-- purpose: pass when the server is at its memory limit, and notice that it is another server.
-- why:     a script whose first write takes something away may go on at the limit; renewals,
--          settles and recovery must. A server process that has not written here before may have
--          older data than the last one: tokens then go on from the time of day, which is above
--          all that were ever given, and nobody is expired for one lease.

local base = tonumber(meta[3] or 0)
local moved_at = tonumber(meta[4] or 0)
redis.call('DEL', P .. 'scratch')
if given[3] ~= '' and given[3] ~= meta[2] then
    base = now
    moved_at = now_lease
    redis.call('HSET', KEYS[1], 'run', given[3], 'base', whole(base), 'moved_at', whole(moved_at))
end
if caller then
    -- Who has left is not known; now and then everyone is forgotten.
    if redis.call('HSET', P .. 'clocks', caller, whole(ahead)) == 1
        and redis.call('HLEN', P .. 'clocks') > 1000 then
        redis.call('DEL', P .. 'clocks')
    end
    if behind ~= tonumber(meta[5] or 0) then redis.call('HSET', KEYS[1], 'behind', whole(behind)) end
end
