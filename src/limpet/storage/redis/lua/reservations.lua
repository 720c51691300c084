-- reservations: which servers are reserved.
-- purpose: reads only.
-- params:  given[4] for how long a reservation holds
-- returns: {0, for each reserved server: server, holder, confirmed_at, is_caller, name}
--          confirmed_at: when the reservation was confirmed last
--          is_caller: 1 if the holder is the session of a caller outside; then its name, else ''
-- include: frame
-- include: row
-- include: permits
-- include: gate

local reserved = {}
for server, reservation in pairs((gates.reservations(given[4]))) do
    if gates.reserved_for(reservation) then
        reserved[#reserved + 1] = server
        reserved[#reserved + 1] = reservation.holder
        reserved[#reserved + 1] = whole(reservation.at)
        reserved[#reserved + 1] = reservation.token == gates.CALLER and 1 or 0
        reserved[#reserved + 1] = reservation.token == gates.CALLER
            and redis.call('HGET', P .. 'session/' .. reservation.holder, 'name') or ''
    end
end
return {0, reserved}
