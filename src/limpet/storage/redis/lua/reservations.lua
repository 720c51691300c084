-- reservations: which servers are reserved.
-- purpose: reads only.
-- params:  for how long a reservation holds.
-- returns: {0, server, job and when it was confirmed, for each}.
-- include: frame
-- include: row
-- include: permits
-- include: gate

local told = {}
for server, reservation in pairs((gates.reservations(now - given[4]))) do
    if gates.reserved_for(reservation) then
        told[#told + 1] = server
        told[#told + 1] = reservation.job
        told[#told + 1] = whole(reservation.at)
    end
end
return {0, told}
