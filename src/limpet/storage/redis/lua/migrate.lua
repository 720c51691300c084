-- migrate: bring a store up to the version of the caller.
-- purpose: say which versions may work on it from now on; older code that is not allowed any more is
--          refused when it connects next. Scripts travel with the code and are no part of it.
-- why:     code of version 1 knows nothing of keys and flows and would let them wait for ever; that of
--          version 2 ends a job and leaves its permit behind, so that its host has less room for ever.
--          They ask for the epoch in every script, find none where it was, look at the versions again,
--          and are refused: also where they are connected already.
-- params:  ARGV[1] a msgpack list: version, oldest version allowed.
-- returns: {0, 1 if it was older}.

local given = cmsgpack.unpack(ARGV[1])
local version = tonumber(redis.call('HGET', KEYS[1], 'schema_version') or given[1])
if version >= given[1] then return {0, 0} end
redis.call('HSET', KEYS[1], 'schema_version', given[1], 'oldest_allowed', given[2],
    'newest_allowed', given[1])
for _, field in ipairs({'epoch', 'made'}) do
    local epoch = redis.call('HGET', KEYS[1], field)
    if epoch then
        redis.call('HSET', KEYS[1], 'founded', epoch)
        redis.call('HDEL', KEYS[1], field)
    end
end
return {0, 1}
