-- admission: decides for one claim which jobs the gate of the host admits; see storage/contract/gating.py.
--          Needs gate.lua.

-- `admitted`: the weight of each job that was admitted. `passed_over`: what was not, as
-- domain.permit.PassedOver.
local admission = {admitted = {}, passed_over = 0}
do

-- The gate of the session's host, nil without one; then what is taken and reserved there, nil until it is looked
-- up.
local room, weights, reserve_after_us, lifetime_us, taken, reserved, reservations

-- `gate`: {room, weights by task, reserve_after_us, lifetime_us of a reservation}.
function admission.open(gate)
    room, weights, reserve_after_us, lifetime_us = gate[1], gate[2], gate[3], gate[4]
end

-- What jobs of a task weigh; nil for light ones.
function admission.weight(task)
    return weights and weights[task]
end

local function look()
    local old
    taken = gates.taken_of(room)
    reservations, old = gates.reservations(lifetime_us)
    gates.unreserve(old)
    reserved = gates.reserved_for(reservations[room[1]])
end

local function may_reserve(id)
    if gates.reserved_elsewhere(reservations, room[1], id) then return false end
    local row = redis.call('HGET', P .. 'row', id)
    return row and struct.unpack(@row.ready_at.format, row, @row.ready_at) <= now - reserve_after_us
end

-- Whether this job may begin. If so, it counts as begun from here on.
function admission.admits(id, weight)
    if not taken then look() end
    if (not reserved or reserved == id) and gates.fits(room, taken, weight) then
        gates.count(taken, weight[1], weight[2], weight[3], true)
        reserved = nil
        admission.admitted[id] = weight
        return true
    end
    admission.passed_over = math.max(admission.passed_over, gates.carries(room, weight) and 2 or 1)
    if gates.helped_by_an_end(room, taken, weight)
        and (reserved == id or (not reserved and may_reserve(id))) then
        local row = redis.call('HGET', P .. 'row', id)
        gates.reserve(room[1], string.sub(row, @row.token, @row.token.last), id)
        reserved = id
    end
    return false
end

-- Write the permits of jobs that were claimed, each {id, session, task, weight}.
function admission.keep(list)
    if #list == 0 then return end
    permits.give(room[1], list)
    for server, reservation in pairs(reservations) do
        if admission.admitted[reservation.holder] then redis.call('HDEL', P .. 'reserved', server) end
    end
end

end
