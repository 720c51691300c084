-- a queue said to have one more job than it has
redis.call('HINCRBY', P .. 'gauge', 'default/ready', 1)
