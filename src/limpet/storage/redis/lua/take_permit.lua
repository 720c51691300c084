-- take_permit: admit a caller outside of any worker.
-- purpose: (nothing) to a permit of this session, if the weight fits; else the server is reserved for a
--          caller that has waited for long enough.
-- params:  given[4] session
--          given[5] weight {cpu, memory, heavy}
--          given[6] room of the host; see include/gate.lua
--          given[7] for how long a reservation holds
--          given[8] how long a caller waits before the host is reserved for it
-- returns: {0, 1 if it has a permit}
--          {1} the session is not there
--          {2} the session is over
-- why:     a server that took over may have forgotten permits. Holders notice that within a lease, and
--          until then no permit is given, as no job is claimed.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: write
-- include: permits
-- include: gate

local s = find_session(given[4])
if not s then
    admit_older_data()
    return {1}
end
if standing(s) ~= LIVE then return {2} end
if redis.call('HEXISTS', P .. 'permit_of', s.id) == 1 then return {0, 1} end
local weight, room = given[5], given[6]
if is_quiet(s.lease) then return {0, 0} end
local reservations = gates.reservations(given[7])
local reserved, taken = gates.reserved_for(reservations[room[1]]), gates.taken_of(room)
local own = redis.call('HMGET', P .. 'session/' .. s.id, 'name', 'registered_at')
if (reserved and reserved ~= s.id) or not gates.fits(room, taken, weight) then
    local may = reserved == s.id or (not reserved and tonumber(own[2]) <= now - given[8]
        and not gates.reserved_elsewhere(reservations, room[1], s.id))
    if may and gates.helped_by_an_end(room, taken, weight) then
        gates.reserve(room[1], gates.CALLER, s.id)
    end
    return {0, 0}
end
permits.give(room[1], {{s.id, s.id, own[1], weight}})
return {0, 1}
