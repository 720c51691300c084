-- frame: what every script begins with.
-- purpose: the name space, what was given, the time, and whether there is a store at all.
-- params:  KEYS[1] the hash `store`; every other key has the same hash tag, so a cluster keeps all
--          of them in one slot. ARGV[1] is a msgpack list: wall time and lease clock (false: the
--          server's own, for both), the server process that the caller is connected to, then what
--          the verb needs.
-- returns: {-1} where there is no store yet; the caller makes one and says the verb again.
-- why:     the server has only a wall clock, which may be set. Who sweeps compares it with a clock
--          of its own, and a holder whose lease has not run out by its own says so; see
--          `SweepVerbs.expire` and `HolderVerbs.renew`.

local P = string.sub(KEYS[1], 1, -6)
local given = cmsgpack.unpack(ARGV[1])
local meta = redis.call('HMGET', KEYS[1], 'founded', 'run', 'base', 'moved_at', 'quiet', 'closed',
    'ruled')
if not meta[1] then
    return {-1}
end
local closed = meta[6]  -- the stage of a store that moves to another place; false when open
local ruled = meta[7]   -- whether anything is said of queues or breakers

local now, now_lease = given[1], given[2]
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    now_lease = now
end

-- A number as text: Lua's own way keeps only 14 digits.
local function whole(number)
    return string.format('%.0f', number)
end
