-- migrate: bring a store up to the version of the caller.
-- purpose: set which versions may work on it from now on; older code that is not allowed any more is
--          refused when it connects next. Scripts travel with the code and are no part of the store.
-- params:  ARGV[1] a msgpack list: version, oldest version allowed
-- returns: {0, 1 if the store was older}
-- why:     code that is connected already does not look at the versions again. A version that must shut
--          out older code gives `store_epoch` another name: every script reads that field, and code that
--          does not find it looks at the versions and is refused.

local given = cmsgpack.unpack(ARGV[1])
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or given[1])
if version >= given[1] then return {0, 0} end
redis.call('HSET', KEYS[1], 'version', given[1], 'oldest_allowed', given[2],
    'newest_allowed', given[1])
return {0, 1}
