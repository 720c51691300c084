-- a part of a flow that nobody will write out or remove
redis.call('HSET', P .. 'flow/forgotten', 0, '')
