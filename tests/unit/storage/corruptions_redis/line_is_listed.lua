-- a line that no claim looks at
redis.call('SREM', P .. 'lines', 'ready/default/work')
