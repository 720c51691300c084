-- take_permit: admit a caller outside of any worker.
-- purpose: (nothing) to a permit of this session, if it fits.
-- params:  session, weight (cpu, memory, heavy), room (see include/gate.lua), for how long a reservation
--          holds.
-- returns: {0, 1 if it has one}; {1} for a session that is not there; {2} for one that is over.
-- why:     a server that took over may have forgotten permits; who holds one has noticed within a lease,
--          and until then nothing is given, as nothing is claimed.
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
if is_quiet(s.lease) or gates.reserved_for(gates.reservations(now - given[7])[room[1]])
    or not gates.fits(room, gates.taken_of(room), weight) then
    return {0, 0}
end
local name = redis.call('HGET', P .. 'session/' .. s.id, 'name')
permits.give(room[1], {{s.id, s.id, name, weight}})
return {0, 1}
