-- adopt: write jobs as they were in another store.
-- purpose: (nothing) to the state that each had; a job that is there stays as it is.
-- params:  the move, the cursor, the jobs: id, row, payload, extra, result, secrets of the result,
--          error, progress (false where there is none), reason of a blocked one, events, lines,
--          for how many children it waits, when it is relaunched (false where it is not); then events
--          for the list of the latest.
-- returns: {0, how many are new}; {1} for a store that does not take them.
-- why:     everything is checked before the first write, which is refused at the memory limit.
-- include: frame
-- include: row
-- include: keys
-- include: moves
-- include: after
-- include: many
-- include: at_stage

if not is_at('arriving') then return {1} end
-- As in enqueue: while a cluster moves the slot, the script fails here or not at all.
redis.call('EXISTS', P .. 'scratch')

local HASHES = {'job', 'extra', 'result', 'result_secrets', 'error', 'progress'}
local values, every, fresh = {}, {}, 0
for _, hash in ipairs(HASHES) do values[hash] = {} end
local highest = tonumber(redis.call('HGET', KEYS[1], 'enqueued') or 0)

-- What others keep of a job: turns, uniques, parents.
local function adopt_beside(r, pending, relaunch_at)
    local extra = extra_of(r)
    if flagged(r.flags, TURN) then
        local k = key_of(extra.key)
        k.count = k.count + 1
    elseif flagged(r.flags, KEYED) and r.state == BLOCKED then
        -- Promote finds out whether it waits for time.
        local k = key_of(extra.key)
        k.lined, k.said = true, k.said or extra.rules ~= NO_RULES
        redis.call('ZADD', P .. 'key_due', 0, extra.key)
    end
    if extra.parent then
        redis.call('ZADD', P .. 'children/' .. extra.parent, whole(r.number), r.id)
    end
    if extra.unique then
        -- The newest that still holds it, or else the newest.
        local field = r.task .. '/' .. extra.unique
        if holds_unique(r) or not unique_holder(r.task, extra.unique) then
            redis.call('HSET', P .. 'unique', field, r.id)
        end
    end
    if pending > 0 then redis.call('HSET', P .. 'pending', r.id, pending) end
    if relaunch_at then redis.call('ZADD', P .. 'relaunch', whole(relaunch_at), r.id) end
end

for _, parcel in ipairs(given[6]) do
    local id = parcel[1]
    if redis.call('HEXISTS', P .. 'row', id) == 0 then
        local r = read_row(id, parcel[2])
        for place, hash in ipairs(HASHES) do
            local value = parcel[2 + place]
            if value then
                local list = values[hash]
                list[#list + 1] = id
                list[#list + 1] = value
            end
        end
        r.extra = read_extra(parcel[4])
        enter(r, parcel[9])
        adopt_beside(r, parcel[12], parcel[13])
        gauge(r.queue, r.state, 1)
        every[#every + 1] = whole(r.number)
        every[#every + 1] = id
        many('RPUSH', P .. 'events/' .. id, parcel[10])
        many('RPUSH', P .. 'log/' .. id, parcel[11])
        highest = math.max(highest, r.number)
        fresh = fresh + 1
    end
end
if fresh > 0 then
    for hash, list in pairs(values) do many('HSET', P .. hash, list) end
    many('ZADD', P .. 'all', every)
    many('LPUSH', P .. 'latest', given[7])
    redis.call('LTRIM', P .. 'latest', 0, 999)
end
-- What ended there has been told to its parent there.
ended = {}
redis.call('HSET', KEYS[1], 'enqueued', whole(highest), 'cursor', given[5])
finish()
return {0, fresh}
