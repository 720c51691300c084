-- an exchange whose answer is lost
for _, id in ipairs(redis.call('ZRANGE', P .. 'sessions', 0, -1)) do
    redis.call('HDEL', P .. 'session/' .. id, 'rejected')
end
