-- open: the first script on a connection, before any verb.
-- purpose: make a store where there is none, or answer which versions may work on the one that is there.
-- params:  ARGV[1] a msgpack list: wall time or false, epoch for a new store, version, oldest version
--          allowed, the server process that the caller is connected to
-- returns: {0, 1 if the store was made, version, oldest version allowed, newest version allowed}
--          {1} the store is older than the first release: its version was called schema_version, and
--              counted otherwise
-- why:     tokens begin at the time of day, above all tokens of a store that was here before and is
--          forgotten; with the clock of a test, at one.

local given = cmsgpack.unpack(ARGV[1])
local made = 0
if redis.call('HEXISTS', KEYS[1], 'schema_version') == 1 then return {1} end
if redis.call('EXISTS', KEYS[1]) == 0 then
    local now = given[1]
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000000 + time[2]
    end
    redis.call('HSET', KEYS[1], 'store_epoch', given[2], 'version', given[3], 'oldest_allowed',
        given[4], 'newest_allowed', given[3], 'created_at', string.format('%.0f', now), 'run',
        given[5], 'base', given[1] and 0 or string.format('%.0f', now))
    made = 1
end
local kept = redis.call('HMGET', KEYS[1], 'version', 'oldest_allowed', 'newest_allowed')
return {0, made, tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])}
