-- pick: which of the jobs in some lines come first.
-- purpose: lines are sorted sets; only their heads are read, as far as the session has free places. Jobs that
--          have lapsed are passed over. A source is a line with what was read of it.

-- Lua allows 200 local names in a script: only these are seen outside.
local pick, pick_by_weight, may_probe
do

-- How many jobs that have lapsed one claim passes over; promote clears them away.
local MOST_PASSED = 1000
local passed = 0

-- When each of some jobs in a line lapses, at the same places.
local function ends_of(found, step)
    local ids, ends = {}, {}
    for at = 1, #found, step do ids[#ids + 1] = string.sub(found[at], @place.id) end
    local rows = #ids > 0 and redis.call('HMGET', P .. 'row', unpack(ids)) or {}
    for place, row in ipairs(rows) do
        if row then
            local expires_at, deadline_at = struct.unpack(@row.expires_at:deadline_at, row, @row.expires_at)
            ends[(place - 1) * step + 1] = lapses_at({expires_at = expires_at,
                deadline_at = deadline_at})
        end
    end
    return ends
end

-- Read on in a line. Jobs that have lapsed are passed over, and then the jobs that are taken are not only the head
-- of the line.
local function read_on(source, number, lapsed, scored)
    local step = scored and 2 or 1
    local last = source.seen + number - 1
    local found = scored and redis.call('ZRANGE', source.key, source.seen, last, 'WITHSCORES')
        or redis.call('ZRANGE', source.key, source.seen, last)
    source.seen = source.seen + #found / step
    source.ended = #found / step < number
    if not lapsed and not scored and #source.places == 0 then
        source.places = found
        return
    end
    local ends = lapsed and ends_of(found, step)
    for at = 1, #found, step do
        local end_at = ends and ends[at] or NONE
        local fit = end_at == NONE or end_at > now
        if fit then
            source.places[#source.places + 1] = found[at]
            source.scores[#source.scores + 1] = scored and tonumber(found[at + 1])
        else
            source.gaps = true
            passed = passed + 1
        end
    end
    if passed >= MOST_PASSED then source.ended = true end
end

-- The next job of a line, or nil when there is none.
local function head_of(source, lapsed)
    while source.at > #source.places and not source.ended do
        read_on(source, source.step, lapsed, true)
    end
    return source.places[source.at]
end

-- Whether the head of one line comes before that of another.
local function earlier(a, b)
    local mine, theirs = a.scores[a.at], b.scores[b.at]
    if mine ~= theirs then return mine < theirs end
    return a.places[a.at] < b.places[b.at]
end

-- Move a line to its place in a heap, whose first line has the earliest head.
local function sift(heap, at, size)
    while 2 * at <= size do
        local child = 2 * at
        if child < size and earlier(heap[child + 1], heap[child]) then child = child + 1 end
        if not earlier(heap[child], heap[at]) then return end
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    end
end

-- Whether all these breakers, which are not closed, let one attempt be tried now.
function may_probe(tripped)
    for _, b in ipairs(tripped) do
        if now < b.probe_at then return false end
    end
    return true
end

local function use_probes(tripped, id)
    for _, b in ipairs(tripped) do breakers.probe(b, id) end
end

-- Whether the host can carry the head of a line. If so, the job counts as begun from here on.
local function may_begin(source)
    return not source.weight
        or admission.admits(string.sub(source.places[source.at], @place.id), source.weight)
end

-- The first jobs of all lines together, no more suspects than can run alone, none that the host cannot carry.
function pick(sources, limits, free, suspects, lapsed)
    local picked = {}
    if #sources == 1 and not sources[1].weight then
        local source = sources[1]
        local most = math.min(limits[source.queue], free, source.alone and suspects or free,
            source.probes and 1 or free)
        local step = lapsed and math.max(most, 200) or most
        while #source.places < most and not source.ended do read_on(source, step, lapsed) end
        source.at = math.min(#source.places, most) + 1
        for at = 1, source.at - 1 do picked[at] = string.sub(source.places[at], @place.id) end
        if #picked > 0 and source.probes then use_probes(source.probes, picked[1]) end
        return picked
    end
    local heap, size, taken = {}, 0, {}
    for _, source in ipairs(sources) do
        source.step = math.ceil(1.5 * free / #sources) + 1
        if head_of(source, lapsed) then
            size = size + 1
            heap[size] = source
        end
    end
    for at = math.floor(size / 2), 1, -1 do sift(heap, at, size) end
    while size > 0 and #picked < free do
        local first = heap[1]
        local queue = first.queue
        -- A full queue, a taken place for suspects and a full host do not open again in this claim.
        local open = (taken[queue] or 0) < limits[queue] and (not first.alone or suspects > 0)
            and (not first.probes or may_probe(first.probes)) and may_begin(first)
        if open then
            picked[#picked + 1] = string.sub(first.places[first.at], @place.id)
            first.at = first.at + 1
            taken[queue] = (taken[queue] or 0) + 1
            if first.alone then suspects = suspects - 1 end
            if first.probes then use_probes(first.probes, picked[#picked]) end
        end
        if not open or not head_of(first, lapsed) then
            heap[1] = heap[size]
            heap[size] = nil
            size = size - 1
        end
        sift(heap, 1, size)
    end
    return picked
end

-- As `pick`, but where several queues have jobs, each gets its share: the queue that has used up the least of its
-- share comes next. `served` keeps how far each queue has got, and under no name how far all have, so that a queue
-- that was empty does not catch up on it.
function pick_by_weight(sources, limits, free, suspects, lapsed, rules)
    local lanes, picked = {}, {}
    local clock = tonumber(redis.call('ZSCORE', P .. 'served', '') or 0)
    -- Find the first job of a queue; again only when a job of it was taken, or a place is used up.
    local function look(lane)
        lane.first = nil
        for _, source in ipairs(lane.sources) do
            local shut = source.refused or (source.alone and suspects < 1)
                or (source.probes and not may_probe(source.probes))
            if not shut and head_of(source, lapsed)
                and (not lane.first or earlier(source, lane.first)) then
                lane.first = source
            end
        end
    end
    for _, source in ipairs(sources) do
        source.step = math.ceil(1.5 * free / #sources) + 1
        local lane = lanes[source.queue]
        if not lane then
            local used = tonumber(redis.call('ZSCORE', P .. 'served', source.queue) or 0)
            lane = {queue = source.queue, sources = {}, taken = 0, at = math.max(clock, used),
                share = 1 / (rules[source.queue] and rules[source.queue].weight or 1)}
            lanes[source.queue] = lane
        end
        table.insert(lane.sources, source)
    end
    for _, lane in pairs(lanes) do look(lane) end
    while #picked < free do
        local best = nil
        for _, lane in pairs(lanes) do
            if lane.first and lane.taken < limits[lane.queue] and (not best or lane.at < best.at
                or (lane.at == best.at and earlier(lane.first, best.first))) then
                best = lane
            end
        end
        if not best then break end
        local source = best.first
        if may_begin(source) then
            picked[#picked + 1] = string.sub(source.places[source.at], @place.id)
            source.at = source.at + 1
            if source.alone then suspects = suspects - 1 end
            if source.probes then use_probes(source.probes, picked[#picked]) end
            clock, best.taken, best.at = best.at, best.taken + 1, best.at + best.share
        else
            source.refused = true
        end
        if source.alone or source.probes then
            for _, lane in pairs(lanes) do look(lane) end
        else
            look(best)
        end
    end
    if #picked > 0 then
        redis.call('ZADD', P .. 'served', clock, '')
        for queue, lane in pairs(lanes) do
            if lane.taken > 0 then redis.call('ZADD', P .. 'served', lane.at, queue) end
        end
    end
    return picked
end

end
