-- a session that is recovered for ever
redis.call('SADD', P .. 'widowed', redis.call('ZRANGE', P .. 'ended', 0, 0)[1])
