-- limit_key: what is set for a key at run time, instead of what its jobs name themselves.
-- purpose: turns that this makes possible are given, at most a thousand.
-- params:  key, limit and rate (JSON; '' takes them back).
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: row
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
