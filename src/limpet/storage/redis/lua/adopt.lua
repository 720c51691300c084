-- adopt: write jobs of another store, as they were there.
-- purpose: (nothing) to the state that each job had; a job that is here already stays as it is.
-- params:  given[4] the move
--          given[5] the cursor behind these jobs
--          given[6] the jobs, each a list:
--                   1 id, 2 row, 3 payload, 4 extra, 5 result, 6 secrets of the result, 7 error, 8 progress
--                   (3 to 8: false where there is none), 9 reason of a blocked job, 10 events, 11 log lines,
--                   12 how many children it waits for, 13 when it is relaunched, or false
--          given[7] events for the list `latest`
-- returns: {0, number of new jobs}
--          {1} this store does not take jobs of this move
-- why:     everything is checked before the first write, which is refused at the memory limit.
-- include: frame
-- include: row
-- include: rates
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

-- Write what is kept of a job under its key, its unique and its parent.
local function adopt_beside(r, pending, relaunch_at)
    local extra = extra_of(r)
    if flagged(r.flags, TURN) then
        local k = key_of(extra.key)
        k.count = k.count + 1
    elseif flagged(r.flags, KEYED) and r.state == BLOCKED then
        -- Promote finds out whether the job waits for time.
        local k = key_of(extra.key)
        k.lined, k.own_rules = true, k.own_rules or extra.rules ~= NO_RULES
        redis.call('ZADD', P .. 'key_due', 0, extra.key)
    end
    if extra.parent then
        redis.call('ZADD', P .. 'children/' .. extra.parent, whole(r.number), r.id)
    end
    if extra.unique then
        -- The newest job that still holds it, or else the newest.
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
-- Jobs that ended in the other store have changed their parents there.
ended = {}
redis.call('HSET', KEYS[1], 'enqueued', whole(highest), 'cursor', given[5])
finish()
return {0, fresh}
