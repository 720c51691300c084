-- frame: the beginning of every script.
-- purpose: the name space, the arguments, the time, and whether there is a store at all.
-- params:  KEYS[1] the hash `store`; every other key has the same hash tag, so a cluster keeps all of them in
--                  one slot
--          ARGV[1] a msgpack list, here called `given`:
--          given[1] wall time, false for that of the server
--          given[2] lease clock, false likewise
--          given[3] the server process that the caller is connected to
--          given[4] and on: the arguments of the verb
-- returns: {-1} there is no store yet; the caller makes one and runs the script again
-- why:     the server has only a wall clock, which may be set. A sweeper compares it with a clock of its own,
--          and a holder reports that its lease is not over by the holder's clock; see `SweepVerbs.expire`
--          and `HolderVerbs.renew`.

local P = string.sub(KEYS[1], 1, -6)
local given = cmsgpack.unpack(ARGV[1])
local meta = redis.call('HMGET', KEYS[1], 'store_epoch', 'run', 'base', 'moved_at', 'quiet', 'closed',
    'ruled')
if not meta[1] then
    return {-1}
end
local closed = meta[6]  -- the stage of a store that moves to another place; false when open
local ruled = meta[7]   -- whether there are rules or holds of queues, or breakers that are not closed

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

-- Reads a field of the store; nil where somebody wrote what cannot be read: that must not end a script, least of
-- all after a write.
local stored = {}

function stored.table(decode, text)
    if not text then return nil end
    local fine, value = pcall(decode, text)
    return fine and type(value) == 'table' and value or nil
end

function stored.json(text) return stored.table(cjson.decode, text) end

function stored.packed(text) return stored.table(cmsgpack.unpack, text) end

-- A whole number that is not below `least`; NaN is none.
function stored.number(value, least)
    local number = type(value) ~= 'table' and type(value) ~= 'userdata' and tonumber(value)
    if number and number >= least and number <= 9007199254740992 and number == math.floor(number) then
        return number
    end
    return nil
end

-- A lease, as storage/sql/rows.py reads it: no longer than a hundred years.
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
