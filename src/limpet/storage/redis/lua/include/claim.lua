-- claim: ready to running, as far as the session has room.
-- purpose: lines (queue and task, suspects apart) are sorted sets; only the heads of those that a
--          pool can run are read, so that neither what waits nor what is finished costs anything.

local CHUNK = 1000
local FRESH = '\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0' -- round 1, nothing counted
local FRESH_MIDDLE = '\1\1\147\0\0\0\194\194'

local function packed_text(text)
    if #text < 32 then return string.char(160 + #text) .. text end
    return cmsgpack.pack(text)
end

-- What the holder needs to run a job, as msgpack in the order of ClaimedJob. The job's blob begins
-- with the length of its first part (task, queue), which comes before what changes.
local function told(id, session, row, blob)
    local token = struct.unpack('>I8', row, 3)
    local cut = string.byte(blob, 1) * 256 + string.byte(blob, 2)
    local middle = FRESH_MIDDLE
    if string.sub(row, 35, 50) ~= FRESH or string.sub(row, 32, 33) ~= '\0\0' then
        local suspect, last_run, _, round, failures, orphans, strikes =
            struct.unpack('>BBBI4I4I4I4', row, 32)
        middle = cmsgpack.pack(failures + orphans + 1, round, {failures, orphans, strikes},
            suspect == 1, last_run == 1)
    end
    local deadline = '\192'
    if string.sub(row, 79, 86) ~= NONE_8 then
        deadline = cmsgpack.pack((struct.unpack('>d', row, 79)))
    end
    return '\157\147' .. packed_text(id) .. session .. cmsgpack.pack(token)
        .. string.sub(blob, 3, 2 + cut) .. middle .. string.sub(blob, 3 + cut) .. deadline
end

-- A msgpack list of parts that are packed already.
local function packed_list(parts)
    return '\220' .. struct.pack('>I2', #parts) .. table.concat(parts)
end

-- Ready to blocked for jobs whose task no live session knows, so that nobody spins on them.
local function block_strangers(line, task, limit)
    local strangers = redis.call('ZRANGE', P .. line, 0, limit - 1)
    for _, place in ipairs(strangers) do
        local r = find_row(string.sub(place, 7))
        leave(r)
        r.state = BLOCKED
        enter(r, 'task:' .. task)
        local cause = '{"kind":"Needs","what":"task","name":' .. cjson.encode(task) .. '}'
        record(r, 'blocked', nil, nil, cause)
        count_moves(r.queue, 'block', READY, BLOCKED, 1)
    end
    return #strangers
end

-- Read on in a line; what has lapsed is passed over, and then the line is no longer taken from its
-- head alone.
local function read_on(source, number, lapsed)
    local found = redis.call('ZRANGE', source.key, source.seen, source.seen + number - 1,
        'WITHSCORES')
    source.seen = source.seen + #found / 2
    source.ended = #found / 2 < number
    local rows
    if lapsed and #found > 0 then
        local ids = {}
        for at = 1, #found, 2 do ids[#ids + 1] = string.sub(found[at], 7) end
        rows = redis.call('HMGET', P .. 'row', unpack(ids))
    end
    for at = 1, #found, 2 do
        local fit = true
        if rows then
            local end_at = lapses_at(read_row('', rows[(at + 1) / 2]))
            fit = end_at == NONE or end_at > now
        end
        if fit then
            source.places[#source.places + 1] = found[at]
            source.scores[#source.scores + 1] = tonumber(found[at + 1])
        else
            source.gaps = true
        end
    end
end

-- The next of a line, or nil when there is none.
local function head_of(source, lapsed)
    while source.at > #source.places and not source.ended do
        read_on(source, source.step, lapsed)
    end
    return source.places[source.at]
end

-- The first of all lines together, no more suspects than can run alone.
local function pick(sources, limits, room, suspects, lapsed)
    local picked = {}
    if #sources == 1 then
        local source = sources[1]
        local most = math.min(limits[source.queue], room, source.alone and suspects or room)
        local step = lapsed and math.max(most, 200) or most
        while #source.places < most and not source.ended do read_on(source, step, lapsed) end
        source.at = math.min(#source.places, most) + 1
        for at = 1, source.at - 1 do picked[at] = string.sub(source.places[at], 7) end
        return picked
    end
    for _, source in ipairs(sources) do source.step = math.ceil(room / #sources) + 8 end
    local taken = {}
    while #picked < room do
        local best
        for _, source in ipairs(sources) do
            local open = (taken[source.queue] or 0) < limits[source.queue]
                and (not source.alone or suspects > 0)
            local place = open and head_of(source, lapsed)
            if place then
                local score = source.scores[source.at]
                if not best or score < best.scores[best.at]
                    or (score == best.scores[best.at] and place < best.places[best.at]) then
                    best = source
                end
            end
        end
        if not best then break end
        picked[#picked + 1] = string.sub(best.places[best.at], 7)
        best.at = best.at + 1
        taken[best.queue] = (taken[best.queue] or 0) + 1
        if best.alone then suspects = suspects - 1 end
    end
    return picked
end

local function take_out(sources)
    for _, source in ipairs(sources) do
        local count = source.at - 1
        if count > 0 and not source.gaps then
            redis.call('ZREMRANGEBYRANK', source.key, 0, count - 1)
        elseif count > 0 then
            redis.call('ZREM', source.key, unpack(source.places, 1, count))
        end
        if redis.call('EXISTS', source.key) == 0 then
            redis.call('SREM', P .. 'lines', source.line)
        end
    end
end

-- The lines from which a pool may take; jobs of tasks that nobody knows are blocked on the way.
local function lines_for(pool, limits, per_queue, paused, room)
    local sources = {}
    local tasks, slots, suspects = pool[1], pool[4], pool[3]
    local strangers = CHUNK
    for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do
        local queue, task = split(string.sub(line, 7))
        local limit = slots[queue] and slots[queue] - (per_queue[queue] or 0) or slots['*'] or 0
        limit = math.min(limit, room)
        if limit > 0 and not paused[queue] then
            if redis.call('SISMEMBER', P .. 'tasks/' .. tasks, task) == 1 then
                local alone = string.sub(line, 1, 1) == 'a'
                limits[queue] = limit
                if not alone or suspects > 0 then
                    sources[#sources + 1] = {key = P .. line, line = line, queue = queue,
                        alone = alone, places = {}, scores = {}, at = 1, seen = 0, ended = false}
                end
            elseif strangers > 0 and tonumber(redis.call('HGET', P .. 'known', task) or 0) <= 0 then
                strangers = strangers - block_strangers(line, task, strangers)
            end
        end
    end
    return sources
end

-- Rows of a session's jobs as they become when it takes them, and what it is told.
local function run(session, seq, pool, ids, parts, per_queue)
    local rows = redis.call('HMGET', P .. 'row', unpack(ids))
    local blobs = redis.call('HMGET', P .. 'job', unpack(ids))
    local name = packed_text(session)
    local mine = string.char(#session) .. session
    local stamp = struct.pack('>I4Bdd', seq, pool, now, NONE)
    local moved, changed, lines, limited = {}, {}, {}, {}
    for place, id in ipairs(ids) do
        local row = rows[place]
        -- A job without its row or payload cannot run; fsck finds it.
        if row and blobs[place] then
            local token = math.max(struct.unpack('>I8', row, 3), base) + 1
            local old = 101 + string.byte(row, 101)
            local line = string.sub(row, old + 1)
            if string.sub(row, 71, 78) ~= NONE_8 or string.sub(row, 79, 86) ~= NONE_8 then
                limited[#limited + 1] = id
            end
            row = '\4\0' .. struct.pack('>I8', token) .. stamp .. string.sub(row, 32, 100) .. mine
                .. line
            lines[line] = (lines[line] or 0) + 1
            changed[#changed + 1] = id
            changed[#changed + 1] = row
            moved[#moved + 1] = id
            parts[#parts + 1] = told(id, name, row, blobs[place])
            hold(id, token)
        end
    end
    if #moved == 0 then return end
    redis.call('HSET', P .. 'row', unpack(changed))
    redis.call('SADD', P .. 'held/' .. session, unpack(moved))
    if #limited > 0 then redis.call('ZREM', P .. 'lapse', unpack(limited)) end
    for line, count in pairs(lines) do
        local queue = split(line)
        per_queue[queue] = (per_queue[queue] or 0) + count
        count_moves(queue, 'claim', READY, RUNNING, count)
    end
end

-- Take jobs for the session; what it is told of each is added to `parts`.
local function claim(session, seq, pools, parts)
    local paused, per_queue = {}, {}
    for _, queue in ipairs(redis.call('SMEMBERS', P .. 'paused')) do paused[queue] = true end
    local lapsed = redis.call('ZCOUNT', P .. 'lapse', '-inf', whole(now)) > 0
    for place, pool in ipairs(pools) do
        local room = math.min(pool[2], CHUNK)
        if room > 0 then
            local limits = {}
            local sources = lines_for(pool, limits, per_queue, paused, room)
            if #sources > 0 then
                local ids = pick(sources, limits, room, pool[3], lapsed)
                take_out(sources)
                if #ids > 0 then run(session, seq, place, ids, parts, per_queue) end
            end
        end
    end
end

-- What the session was given by an exchange, as far as it still has it, in the same order.
local function claimed_before(session, seq)
    local ids = redis.call('SMEMBERS', P .. 'held/' .. session)
    local found, parts = {}, {}
    for _, id in ipairs(ids) do
        local text = redis.call('HGET', P .. 'row', id)
        if text then
            local r = read_row(id, text)
            if r.seq == seq then found[#found + 1] = {r.pool, sort_key(r), r.number, text, id} end
        end
    end
    table.sort(found, function(a, b)
        if a[1] ~= b[1] then return a[1] < b[1] end
        if a[2] ~= b[2] then return a[2] < b[2] end
        return a[3] < b[3]
    end)
    for _, each in ipairs(found) do
        local blob = redis.call('HGET', P .. 'job', each[5])
        parts[#parts + 1] = told(each[5], packed_text(session), each[4], blob)
    end
    return parts
end
