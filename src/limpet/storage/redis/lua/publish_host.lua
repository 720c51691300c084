-- publish_host: what a host says of itself.
-- purpose: it takes the place of what the host said before; samples are added and trimmed, what hosts that
--          are gone left behind is removed, and reservations that hold no more.
-- params:  server, what it says, its lifetime, samples (span, at, body), pairs of span and how long its
--          samples are kept, for how long a reservation holds.
-- returns: {0}.
-- why:     at the memory limit samples are left out, which would add to what is there.
-- include: frame
-- include: unclosed

-- As in report: adds nothing, but at the limit it is refused, being the first write.
local probe = redis.pcall('LPUSHX', P .. 'scratch', '')
local full = type(probe) == 'table' and string.find(probe.err, 'OOM', 1, true)

-- include: write
-- include: row
-- include: permits
-- include: gate

local server = given[4]
redis.call('HSET', P .. 'hosts', server, struct.pack('>d', now) .. given[5])
redis.call('ZADD', P .. 'hosts_until', whole(now + given[6]), server)
local gone = redis.call('ZRANGEBYSCORE', P .. 'hosts_until', '-inf', whole(now), 'LIMIT', 0, 1000)
if #gone > 0 then
    redis.call('HDEL', P .. 'hosts', unpack(gone))
    redis.call('ZREM', P .. 'hosts_until', unpack(gone))
end

local _, lapsed = gates.reservations(given[9])
gates.unreserve(lapsed)

local kept = {}
for _, each in ipairs(given[8]) do kept[each[1]] = each[2] end
for _, each in ipairs(full and {} or given[7]) do
    local span, at = each[1], each[2]
    local name = span .. '/' .. server
    local key = P .. 'samples/' .. name
    redis.call('ZREMRANGEBYSCORE', key, whole(at), whole(at))
    redis.call('ZADD', key, whole(at), struct.pack('>d', at) .. each[3])
    redis.call('ZADD', P .. 'sampled', 'GT', whole(at + kept[span]), name)
end
for span, time in pairs(kept) do
    redis.call('ZREMRANGEBYSCORE', P .. 'samples/' .. span .. '/' .. server, '-inf', whole(now - time))
end
local old = redis.call('ZRANGEBYSCORE', P .. 'sampled', '-inf', whole(now), 'LIMIT', 0, 1000)
for _, name in ipairs(old) do
    redis.call('DEL', P .. 'samples/' .. name)
    redis.call('ZREM', P .. 'sampled', name)
end
return {0}
