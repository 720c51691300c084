-- frame: what every script begins with.
-- purpose: the name space, what was given, the time, and whether there is a store at all.
-- params:  KEYS[1] the hash `store`; every other key has the same hash tag, so a cluster keeps all
--          of them in one slot. ARGV[1] is a msgpack list: wall time and lease clock (false: the
--          server's own, then the caller's name and its boot clock), the server process that
--          the caller is connected to, then what the verb needs.
-- returns: {-1} where there is no store yet; the caller makes one and says the verb again.

local P = string.sub(KEYS[1], 1, -6)
local given = cmsgpack.unpack(ARGV[1])
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'base', 'moved_at', 'behind', 'closed')
if not meta[1] then
    return {-1}
end
local closed = meta[#meta]  -- the stage of a store that moves to another place; false when open

-- The server has only a wall clock, which may be stepped. The lease clock is that clock, as far
-- behind it as it was ever seen to jump ahead of a caller's boot clock. What looks like a jump but
-- was a long way to the server makes leases end later, never earlier.
local JUMP = 2000000
local now, now_lease, behind, caller, ahead = given[1], given[2], tonumber(meta[5] or 0), nil, nil
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
    now_lease = now - behind
    caller, ahead = given[2][1], now_lease - given[2][2]
    local usual = tonumber(redis.call('HGET', P .. 'clocks', caller) or ahead)
    if ahead - usual > JUMP then
        behind = behind + ahead - usual
        now_lease = now_lease - (ahead - usual)
        ahead = usual
    elseif ahead > usual then
        ahead = usual + (ahead - usual) / 8
    end
end

-- A number as text: Lua's own way keeps only 14 digits.
local function whole(number)
    return string.format('%.0f', number)
end
