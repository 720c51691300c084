-- gate: whether a host can carry one more; the arithmetic is that of domain/permit.py. Needs permits.lua.
-- room:    {server, cpu, memory, free_cpu, free_memory (false where that is not known), calm, unseen}.
-- reserved: `reserved` has for each server when a claim last met the job for which nothing else is
--          admitted there, in eight bytes, the token of that job, so that any claim of it ends this, in
--          eight more, and the job.

local gates = {}

function gates.carries(room, weight)
    return weight[1] <= room[2] and weight[2] <= room[3]
end

function gates.count(taken, cpu, memory, heavy, unseen)
    taken.permits = taken.permits + 1
    taken.heavy = taken.heavy or heavy
    taken.cpu, taken.memory = taken.cpu + cpu, taken.memory + memory
    if unseen then
        taken.unseen_cpu, taken.unseen_memory = taken.unseen_cpu + cpu, taken.unseen_memory + memory
    end
end

-- What the permits of a host take together, and of that what was not measured yet.
function gates.taken_of(room)
    local taken = {permits = 0, heavy = false, cpu = 0, memory = 0, unseen_cpu = 0, unseen_memory = 0}
    for _, p in ipairs(permits.of(room[1])) do
        gates.count(taken, p.cpu, p.memory, p.heavy, p.at > now - room[7])
    end
    return taken
end

function gates.fits(room, taken, weight)
    local cpu, memory, heavy = weight[1], weight[2], weight[3]
    local free_cpu, free_memory = room[4], room[5]
    if taken.heavy or not gates.carries(room, weight) then return false end
    if heavy and (taken.permits > 0 or not room[6]) then return false end
    if taken.cpu + cpu > room[2] or taken.memory + memory > room[3] then return false end
    if cpu > 0 and free_cpu and taken.unseen_cpu >= free_cpu then return false end
    return not (memory > 0 and free_memory and taken.unseen_memory + memory > free_memory)
end

-- Whether what does not fit might once the permits of others are gone.
function gates.helped_by_an_end(room, taken, weight)
    if taken.permits == 0 or not gates.carries(room, weight) then return false end
    return not room[5] or room[5] + taken.memory >= weight[2]
end

-- What was confirmed since then, by server; `old` are the servers whose reservation was not.
function gates.reservations(since)
    local found, old = {}, {}
    local kept = redis.call('HGETALL', P .. 'reserved')
    for at = 1, #kept, 2 do
        local confirmed = struct.unpack('>d', kept[at + 1])
        if confirmed > since then
            found[kept[at]] = {at = confirmed, token = string.sub(kept[at + 1], 9, 16),
                job = string.sub(kept[at + 1], 17)}
        else
            old[#old + 1] = kept[at]
        end
    end
    return found, old
end

-- The job for which a server is reserved, while it is ready; or nil.
function gates.reserved_for(reservation)
    local row = reservation and redis.call('HGET', P .. 'row', reservation.job)
    return row and string.byte(row, 1) == READY and string.sub(row, 3, 10) == reservation.token
        and reservation.job or nil
end
