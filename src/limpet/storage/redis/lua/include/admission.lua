-- admission: one claim at the gate of its host; see storage/gating.py. Needs gate.lua.

-- `admitted`: what was let in, and what each of them weighs. `passed_over`: what was not, as
-- domain.permit.PassedOver.
local admission = {admitted = {}, passed_over = 0}
do

-- What the holder said, nil without a gate; what is taken and reserved on its host, nil until it is asked.
local room, weights, patience, lasts, taken, reserved, reservations

-- `said`: {room, weights by task, patience, for how long a reservation holds}.
function admission.open(said)
    room, weights, patience, lasts = said[1], said[2], said[3], said[4]
end

-- What jobs of a task weigh; nil for light ones.
function admission.weight(task)
    return weights and weights[task]
end

local function look()
    local old
    taken = gates.taken_of(room)
    reservations, old = gates.reservations(lasts)
    gates.unreserve(old)
    reserved = gates.reserved_for(reservations[room[1]])
end

local function may_reserve(id)
    if gates.reserved_elsewhere(reservations, room[1], id) then return false end
    local row = redis.call('HGET', P .. 'row', id)
    return row and struct.unpack(@row.ready_at.format, row, @row.ready_at) <= now - patience
end

-- Whether this job may begin; from here on it counts as if it had.
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

-- Write the permits of those that were taken: {id, session, task, weight} each.
function admission.keep(list)
    if #list == 0 then return end
    permits.give(room[1], list)
    for server, reservation in pairs(reservations) do
        if admission.admitted[reservation.holder] then redis.call('HDEL', P .. 'reserved', server) end
    end
end

end
