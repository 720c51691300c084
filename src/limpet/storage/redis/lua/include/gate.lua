-- gate: whether a host can carry one more; the arithmetic is that of domain/permit.py. Needs permits.lua.
-- room:    {server, cpu, memory, free_cpu, free_memory (false where that is not known), calm, unseen}.
-- reserved: the hash `reserved` has one text for each server, see layout.py. CALLER stands for the token of a
--          job where the holder is the session of a caller outside.

local gates = {CALLER = string.rep('\255', 8)}

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

-- What the permits of a host take together, and the part of it that was not measured yet.
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

-- Whether a weight that does not fit might do so once the permits of others are gone.
function gates.helped_by_an_end(room, taken, weight)
    if taken.permits == 0 or not gates.carries(room, weight) then return false end
    if weight[1] > 0 and room[4] and room[4] + taken.cpu - taken.unseen_cpu <= 0 then return false end
    return not room[5] or room[5] + taken.memory - taken.unseen_memory >= weight[2]
end

-- The reservations that hold, by server; and the servers whose reservation holds no more: it was not confirmed for
-- `lifetime_us`, or the clock was set back after it was.
function gates.reservations(lifetime_us)
    local found, old = {}, {}
    local kept = redis.call('HGETALL', P .. 'reserved')
    for at = 1, #kept, 2 do
        local confirmed = struct.unpack(@reservation.at.format, kept[at + 1])
        if math.abs(confirmed - now) < lifetime_us then
            found[kept[at]] = {at = confirmed, holder = string.sub(kept[at + 1], @reservation.holder),
                token = string.sub(kept[at + 1], @reservation.token, @reservation.token.last)}
        else
            old[#old + 1] = kept[at]
        end
    end
    return found, old
end

local function waits(reservation)
    if reservation.token == gates.CALLER then
        local state = redis.call('HGET', P .. 'session/' .. reservation.holder, 'state')
        return state and state ~= 'dead'
            and redis.call('HEXISTS', P .. 'permit_of', reservation.holder) == 0
    end
    local row = redis.call('HGET', P .. 'row', reservation.holder)
    return row and string.byte(row, @row.state) == READY
        and string.sub(row, @row.token, @row.token.last) == reservation.token
end

-- The holder for whom a server is reserved: a job while it is ready, a caller until it has a permit; or nil.
function gates.reserved_for(reservation)
    return reservation and waits(reservation) and reservation.holder or nil
end

-- Remove reservations that hold no more; else they would hold again when a clock that was set back gets there.
function gates.unreserve(old)
    for _, server in ipairs(old) do redis.call('HDEL', P .. 'reserved', server) end
end

-- Whether another server is reserved for the same holder.
function gates.reserved_elsewhere(reservations, server, holder)
    for other, reservation in pairs(reservations) do
        if other ~= server and gates.reserved_for(reservation) == holder then return true end
    end
    return false
end

-- Reserve a server, or confirm its reservation; `token` is that of the job, or CALLER.
function gates.reserve(server, token, holder)
    redis.call('HSET', P .. 'reserved', server, struct.pack(@reservation.at.format, now) .. token .. holder)
end
