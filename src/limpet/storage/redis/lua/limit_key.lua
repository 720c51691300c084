-- limit_key: set a limit for a key at run time; it replaces the limits that jobs of the key name.
-- purpose: turns that the new limit allows are given, at most a thousand.
-- params:  given[4] key
--          given[5] limit and rate (JSON; '' removes them)
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: write

if given[5] == '' then
    redis.call('HDEL', P .. 'key_rules', given[4])
else
    redis.call('HSET', P .. 'key_rules', given[4], given[5])
end
redis.call('ZREM', P .. 'key_due', given[4])
freed[given[4]] = true
finish()
return {0}
