-- claim: ready to running, as far as the session has room.
-- purpose: lines (queue and task, suspects apart) are sorted sets; only the heads of those that a
--          pool can run are read, so that neither what waits nor what is finished costs anything.

local CHUNK = 1000
local FRESH = '\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0' -- round 1, nothing counted
local FRESH_MIDDLE = '\1\1\147\0\0\0\194\194'
local TOLD, NIL, NOTHING = '\157\147', '\192', string.rep('\0', 54)

local function packed_text(text)
    if #text < 32 then return string.char(160 + #text) .. text end
    return cmsgpack.pack(text)
end

-- Who is told, and what jobs of one line and token have in common, packed.
local function teller(session)
    return {name = packed_text(session), known = {}}
end

local function in_common(who, token, line)
    local of_token = who.known[token]
    if not of_token then
        of_token = {}
        who.known[token] = of_token
    end
    local common = of_token[line]
    if not common then
        local queue, task = split(line)
        common = who.name .. cmsgpack.pack(token) .. packed_text(task) .. packed_text(queue)
        of_token[line] = common
    end
    return common
end

-- What the holder needs to run a job, as msgpack in the order of ClaimedJob. Added in pieces,
-- because every new text costs.
local function tell(parts, who, id, token, line, row, blob)
    local n = #parts
    local middle, deadline = FRESH_MIDDLE, NIL
    if string.sub(row, 35, 50) ~= FRESH or string.sub(row, 32, 33) ~= '\0\0' then
        local suspect, last_run, _, round, failures, orphans, strikes =
            struct.unpack('>BBBI4I4I4I4', row, 32)
        middle = cmsgpack.pack(failures + orphans + 1, round, {failures, orphans, strikes},
            suspect == 1, last_run == 1)
    end
    if string.sub(row, 79, 86) ~= NONE_8 then
        deadline = cmsgpack.pack((struct.unpack('>d', row, 79)))
    end
    parts[n + 1] = TOLD
    if #id < 32 then
        parts[n + 2] = string.char(160 + #id)
        parts[n + 3] = id
    else
        parts[n + 2] = cmsgpack.pack(id)
        parts[n + 3] = ''
    end
    parts[n + 4] = in_common(who, token, line)
    parts[n + 5] = middle
    parts[n + 6] = blob
    parts[n + 7] = deadline
end

-- A msgpack list of what was told, seven pieces each.
local function told_list(parts)
    return '\220' .. struct.pack('>I2', #parts / 7) .. table.concat(parts)
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
    local who = teller(session)
    local mine = string.char(#session) .. session
    local stamp = struct.pack('>I4Bdd', seq, pool, now, NONE)
    local heads, held_as = {}, {{}, {}}
    local changed, held, lines, limited = {}, {}, {}, {}
    for place, id in ipairs(ids) do
        local row = rows[place]
        -- A job without its row or payload cannot run; fsck finds it.
        if row and blobs[place] then
            local token = math.max(struct.unpack('>I8', row, 3), base) + 1
            local line = string.sub(row, 102 + string.byte(row, 101))
            if string.sub(row, 71, 78) ~= NONE_8 or string.sub(row, 79, 86) ~= NONE_8 then
                limited[#limited + 1] = id
            end
            local head = heads[token]
            if not head then
                head = '\4\0' .. struct.pack('>I8', token) .. stamp
                heads[token] = head
            end
            -- One that failed before left an error behind.
            local kind = string.sub(row, 39, 46) == '\0\0\0\0\0\0\0\0' and 1 or 2
            local common = in_common(who, token, line)
            local kept = held_as[kind][common]
            if not kept then
                kept = string.char(kind - 1) .. '\0' .. struct.pack('>I8', token) .. NOTHING .. line
                held_as[kind][common] = kept
            end
            lines[line] = (lines[line] or 0) + 1
            changed[#changed + 1] = id
            changed[#changed + 1] = head .. string.sub(row, 32, 100) .. mine .. line
            held[#held + 1] = id
            held[#held + 1] = kept
            tell(parts, who, id, token, line, row, blobs[place])
            hold(id, token)
        end
    end
    if #held == 0 then return end
    redis.call('HSET', P .. 'row', unpack(changed))
    redis.call('HSET', P .. 'held/' .. session, unpack(held))
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
    local found, parts = {}, {}
    for _, id in ipairs(redis.call('HKEYS', P .. 'held/' .. session)) do
        local text = redis.call('HGET', P .. 'row', id)
        if text then
            local r = read_row(id, text)
            r.text = text
            if r.seq == seq then found[#found + 1] = r end
        end
    end
    table.sort(found, function(a, b)
        if a.pool ~= b.pool then return a.pool < b.pool end
        if sort_key(a) ~= sort_key(b) then return sort_key(a) < sort_key(b) end
        return a.number < b.number
    end)
    local who = teller(session)
    for _, r in ipairs(found) do
        tell(parts, who, r.id, r.token, r.line, r.text, redis.call('HGET', P .. 'job', r.id))
    end
    return parts
end
