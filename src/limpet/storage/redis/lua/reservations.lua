-- reservations: which servers are reserved.
-- purpose: reads only.
-- params:  for how long a reservation holds.
-- returns: {0, server, holder, when it was confirmed, 1 if that is a caller and what it calls itself, for
--          each}.
-- include: frame
-- include: row
-- include: permits
-- include: gate

local told = {}
for server, reservation in pairs((gates.reservations(given[4]))) do
    if gates.reserved_for(reservation) then
        told[#told + 1] = server
        told[#told + 1] = reservation.holder
        told[#told + 1] = whole(reservation.at)
        told[#told + 1] = reservation.token == gates.CALLER and 1 or 0
        told[#told + 1] = reservation.token == gates.CALLER
            and redis.call('HGET', P .. 'session/' .. reservation.holder, 'name') or ''
    end
end
return {0, told}
