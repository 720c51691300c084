-- a session that nobody sees
redis.call('HSET', P .. 'session/lost', 'state', 'dead')
