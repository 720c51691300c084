-- claim: ready to running, as far as the session has room.
-- purpose: lines (queue and task, suspects apart) are sorted sets; only the heads of those that a
--          pool can run are read, so that neither what waits nor what is finished costs anything.

local CHUNK = 1000
-- How many jobs that have lapsed one claim passes over; promote clears them away.
local MOST_PASSED = 1000
local passed = 0
-- At how many heads of lines one claim looks.
local MOST_HEADS = 1000
local FRESH_MIDDLE = '\1\1\147\0\0\0\194\194'
local TOLD = '\157\147'
local TOLD_26 = TOLD .. string.char(160 + 26)

local function packed_text(text)
    if #text < 32 then return string.char(160 + #text) .. text end
    return cmsgpack.pack(text)
end

-- What a plain job and others of its token and line have in common, worked out once: how its row
-- begins, how it is held, what its holder is told between its id and its payload.
local function common_of(who, token, line)
    local of_token = who[token]
    if not of_token then
        of_token = {}
        who[token] = of_token
    end
    local common = of_token[line]
    if not common then
        local queue, task = split(line)
        local fence = struct.pack('>I8', token)
        common = {count = 0, queue = queue, head = '\4\0' .. fence .. who.stamp,
            tail = who.mine .. line, held = '\0\0' .. fence .. line, odd = '\1\0' .. fence .. line,
            told = who.name .. cmsgpack.pack(token) .. packed_text(task) .. packed_text(queue)}
        common.plain = common.told .. FRESH_MIDDLE
        of_token[line] = common
        who.commons[#who.commons + 1] = common
    end
    return common
end

local function holder_of(session, seq, pool)
    return {name = packed_text(session), mine = string.char(#session) .. session, commons = {},
        stamp = struct.pack('>I4Bdd', seq, pool, now, NONE)}
end

-- What the holder needs to run a job, as msgpack in the order of ClaimedJob; added in pieces, because
-- every new text costs. A payload ends with the `nil` of a job without a deadline.
local function tell(parts, common, id, row, blob, plain)
    local n = #parts
    local middle = common.plain
    if not plain then
        local suspect, last_run, _, round, failures, orphans, strikes, _, deadline_at =
            struct.unpack('>BBBI4I4I4I4dd', row, 32)
        middle = common.told .. cmsgpack.pack(failures + orphans + 1, round,
            {failures, orphans, strikes}, suspect == 1, last_run == 1)
        if deadline_at ~= NONE then
            blob = string.sub(blob, 1, -2) .. cmsgpack.pack(deadline_at)
        end
    end
    if #id == 26 then
        parts[n + 1] = TOLD_26
        parts[n + 2] = id
    else
        parts[n + 1] = TOLD
        parts[n + 2] = packed_text(id)
    end
    parts[n + 3] = middle
    parts[n + 4] = blob
end

-- A msgpack list of what was told, four pieces each.
local function told_list(parts)
    return '\220' .. struct.pack('>I2', #parts / 4) .. table.concat(parts)
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

-- When each of some jobs in a line lapses, at the same places.
local function ends_of(found, step)
    local ids, ends = {}, {}
    for at = 1, #found, step do ids[#ids + 1] = string.sub(found[at], 7) end
    local rows = #ids > 0 and redis.call('HMGET', P .. 'row', unpack(ids)) or {}
    for place, row in ipairs(rows) do
        if row then
            local expires_at, deadline_at = struct.unpack('>dd', row, 51)
            ends[(place - 1) * step + 1] = lapses_at({expires_at = expires_at,
                deadline_at = deadline_at})
        end
    end
    return ends
end

-- Read on in a line; what has lapsed is passed over, and then the line is no longer taken from its
-- head alone.
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

-- The next of a line, or nil when there is none.
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

-- Put a line in its place in a heap whose first is the earliest.
local function sift(heap, at, size)
    while 2 * at <= size do
        local child = 2 * at
        if child < size and earlier(heap[child + 1], heap[child]) then child = child + 1 end
        if not earlier(heap[child], heap[at]) then return end
        heap[at], heap[child] = heap[child], heap[at]
        at = child
    end
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
    local heap, size, taken = {}, 0, {}
    for _, source in ipairs(sources) do
        source.step = math.ceil(1.5 * room / #sources) + 1
        if head_of(source, lapsed) then
            size = size + 1
            heap[size] = source
        end
    end
    for at = math.floor(size / 2), 1, -1 do sift(heap, at, size) end
    while size > 0 and #picked < room do
        local first = heap[1]
        local queue = first.queue
        -- A queue that is full, and a place for suspects, do not open again in this claim.
        local open = (taken[queue] or 0) < limits[queue] and (not first.alone or suspects > 0)
        if open then
            picked[#picked + 1] = string.sub(first.places[first.at], 7)
            first.at = first.at + 1
            taken[queue] = (taken[queue] or 0) + 1
            if first.alone then suspects = suspects - 1 end
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

local function take_out(sources)
    for _, source in ipairs(sources) do
        local count = source.at - 1
        if count > 0 and not source.gaps then
            redis.call('ZREMRANGEBYRANK', source.key, 0, count - 1)
        elseif count > 0 then
            redis.call('ZREM', source.key, unpack(source.places, 1, count))
        end
        if source.ended then drop_empty(source.line) end
    end
end

-- Of too many lines some, at each moment others, so that none waits for ever.
local function some_of(lines)
    if #lines <= MOST_HEADS then return lines end
    local start, some = now % #lines, {}
    for at = 1, MOST_HEADS do some[at] = lines[(start + at) % #lines + 1] end
    return some
end

-- The lines from which a pool may take; jobs of tasks that nobody knows are blocked on the way.
local function lines_for(pool, limits, per_queue, paused, room)
    local sources, lines = {}, {}
    local tasks, slots, suspects = pool[1], pool[4], pool[3]
    local strangers = CHUNK
    -- Of each task: whether the pool can run it, whether anybody can; there are more lines than tasks.
    local runs, known = {}, {}
    for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do
        local queue, task = split(string.sub(line, 7))
        local limit = slots[queue] and slots[queue] - (per_queue[queue] or 0) or slots['*'] or 0
        limit = math.min(limit, room)
        if limit > 0 and not paused[queue] then
            if runs[task] == nil then
                runs[task] = redis.call('SISMEMBER', P .. 'tasks/' .. tasks, task) == 1
                known[task] = runs[task]
                    or tonumber(redis.call('HGET', P .. 'known', task) or 0) > 0
            end
            if runs[task] then
                limits[queue] = limit
                if suspects > 0 or string.sub(line, 1, 1) ~= 'a' then lines[#lines + 1] = line end
            elseif strangers > 0 and not known[task] then
                strangers = strangers - block_strangers(line, task, strangers)
            end
        end
    end
    for _, line in ipairs(some_of(lines)) do
        sources[#sources + 1] = {key = P .. line, line = line, queue = split(string.sub(line, 7)),
            alone = string.sub(line, 1, 1) == 'a', places = {}, scores = {}, at = 1, seen = 0,
            ended = false}
    end
    return sources
end

-- Whether a job has been through nothing and has no limits.
local function is_plain(row)
    return string.find(row, PLAIN, 32, true) == 32
end

-- Rows of a session's jobs as they become when it takes them, and what it is told. `line` is that of
-- all of them, or nil.
local function run(session, seq, pool, ids, line, parts, per_queue)
    local rows = redis.call('HMGET', P .. 'row', unpack(ids))
    local blobs = redis.call('HMGET', P .. 'job', unpack(ids))
    local who = holder_of(session, seq, pool)
    local changed, held, limited = {}, {}, {}
    for place = 1, #ids do
        local id, row, blob = ids[place], rows[place], blobs[place]
        -- A job without its row or payload cannot run; fsck finds it.
        if row and blob then
            local token = struct.unpack('>I8', row, 3)
            token = (token > base and token or base) + 1
            local common = common_of(who, token,
                line or string.sub(row, 102 + string.byte(row, 101)))
            local kept, plain = common.held, is_plain(row)
            if not plain then
                if string.sub(row, 51, 66) ~= NONE_8 .. NONE_8 then limited[#limited + 1] = id end
                -- One that failed before left an error behind.
                if string.sub(row, 39, 46) ~= '\0\0\0\0\0\0\0\0' then kept = common.odd end
            end
            local n = #changed
            changed[n + 1] = id
            changed[n + 2] = common.head .. string.sub(row, 32, 100) .. common.tail
            held[n + 1] = id
            held[n + 2] = kept
            common.count = common.count + 1
            tell(parts, common, id, row, blob, plain)
            hold(id, token)
        end
    end
    if #held == 0 then return end
    redis.call('HSET', P .. 'row', unpack(changed))
    redis.call('HSET', P .. 'held/' .. session, unpack(held))
    if #limited > 0 then redis.call('ZREM', P .. 'lapse', unpack(limited)) end
    for _, common in ipairs(who.commons) do
        per_queue[common.queue] = (per_queue[common.queue] or 0) + common.count
        count_moves(common.queue, 'claim', READY, RUNNING, common.count)
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
                local line = #sources == 1 and string.sub(sources[1].line, 7) or nil
                if #ids > 0 then run(session, seq, place, ids, line, parts, per_queue) end
            end
        end
    end
end

-- What the session was given by an exchange, as far as it still has it, in the same order.
local function claimed_before(session, seq)
    local found, parts = {}, {}
    for _, id in ipairs(held_by(session)) do
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
    local who = holder_of(session, seq, 0)
    for _, r in ipairs(found) do
        local blob = redis.call('HGET', P .. 'job', r.id)
        tell(parts, common_of(who, r.token, r.line), r.id, r.text, blob, is_plain(r.text))
    end
    return parts
end
