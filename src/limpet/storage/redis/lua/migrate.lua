-- migrate: bring a store up to the version of the caller.
-- purpose: say which versions may work on it from now on; older code that is not allowed any more is
--          refused when it connects next. Scripts travel with the code and are no part of it.
-- why:     code of version 1 knows nothing of keys and flows and would let them wait for ever. It asks
--          for the epoch in every script, finds none where it was, looks at the versions again, and is
--          refused: also where it is connected already.
-- params:  ARGV[1] a msgpack list: version, oldest version allowed.
-- returns: {0, 1 if it was older}.

local given = cmsgpack.unpack(ARGV[1])
local version = tonumber(redis.call('HGET', KEYS[1], 'schema_version') or given[1])
if version >= given[1] then return {0, 0} end
redis.call('HSET', KEYS[1], 'schema_version', given[1], 'oldest_allowed', given[2],
    'newest_allowed', given[1])
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch then
    redis.call('HSET', KEYS[1], 'made', epoch)
    redis.call('HDEL', KEYS[1], 'epoch')
end
return {0, 1}
