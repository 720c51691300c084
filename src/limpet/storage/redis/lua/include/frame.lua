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
local meta = redis.call('HMGET', KEYS[1], 'store_epoch', 'run', 'base', 'moved_at', 'quiet', 'closed',
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

-- What a field of the store holds, or nil where somebody wrote what nobody can read: it must not end a
-- script, least of all after a write.
local stored = {}

function stored.table(decode, text)
    if not text then return nil end
    local fine, value = pcall(decode, text)
    return fine and type(value) == 'table' and value or nil
end

function stored.json(text) return stored.table(cjson.decode, text) end

function stored.packed(text) return stored.table(cmsgpack.unpack, text) end

-- A whole number of at least so much; NaN is none.
function stored.number(value, least)
    local number = type(value) ~= 'table' and type(value) ~= 'userdata' and tonumber(value)
    if number and number >= least and number <= 9007199254740992 and number == math.floor(number) then
        return number
    end
    return nil
end

-- A lease, as storage/rows.py has it: no longer than a hundred years.
function stored.lease(value)
    local lease = stored.number(value, 1)
    return lease and lease <= 3162240000000000 and lease or nil
end

-- A rate {count, period, burst}.
function stored.rate(value)
    if type(value) ~= 'table' then return nil end
    for part = 1, 3 do
        if not stored.number(type(value[part]) == 'number' and value[part] or nil, 1) then return nil end
    end
    return value
end
