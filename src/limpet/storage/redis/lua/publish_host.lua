-- publish_host: keep what a host reports of itself.
-- purpose: the report replaces the one before; samples are added and trimmed; what is left of hosts that
--          are gone is removed, and reservations that hold no more.
-- params:  given[4] server
--          given[5] the report
--          given[6] its lifetime
--          given[7] samples {span, at, body}
--          given[8] pairs of span and for how long its samples are kept
--          given[9] for how long a reservation holds
-- returns: {0}
-- why:     samples add to what is there, so at the memory limit they are left out.
-- include: frame
-- include: unclosed

-- As in report: this adds nothing, but it is the first write, and so it is refused at the limit.
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
for _, pair in ipairs(given[8]) do kept[pair[1]] = pair[2] end
for _, sample in ipairs(full and {} or given[7]) do
    local span, at = sample[1], sample[2]
    local name = span .. '/' .. server
    local key = P .. 'samples/' .. name
    redis.call('ZREMRANGEBYSCORE', key, whole(at), whole(at))
    redis.call('ZADD', key, whole(at), struct.pack('>d', at) .. sample[3])
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
