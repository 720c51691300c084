-- a job to be relaunched that is ready
redis.call('ZADD', P .. 'relaunch', 1, (some(@state.ready)))
