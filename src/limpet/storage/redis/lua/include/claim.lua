-- claim: ready to running, as far as the session has free places.
-- purpose: lines (queue and task, suspects apart) are sorted sets; only the heads of those that a
--          pool can run are read, so that neither what waits nor what is finished costs anything.

-- Lua allows 200 local names in a script: only these are seen outside.
local claim, claimed_before, claimed_list
do

local CHUNK = 1000
-- How many lines one claim reads at most.
local MOST_HEADS = 1000
local FRESH_MIDDLE = '\1\1\147\0\0\0\194\194'
-- How msgpack begins a ClaimedJob and its lease; and, with the next text, one whose id has 26 letters.
local LEASE_HEAD = '\157\147'
local LEASE_HEAD_26 = LEASE_HEAD .. string.char(160 + 26)

local function packed_text(text)
    if #text < 32 then return string.char(160 + #text) .. text end
    return cmsgpack.pack(text)
end

-- What plain jobs of one token and line have in common, worked out once: the head of the row, the text in the
-- hash of what is held, and what the answer has between id and payload.
local function common_of(holder, token, line)
    local of_token = holder[token]
    if not of_token then
        of_token = {}
        holder[token] = of_token
    end
    local common = of_token[line]
    if not common then
        local queue, task = split(line)
        local fence = struct.pack(@row.token.format, token)
        common = {count = 0, queue = queue, task = task,
            head = @state.running.byte .. '\0' .. fence .. holder.stamp,
            tail = holder.mine .. line, held = '\0\0' .. fence .. line, odd = '\1\0' .. fence .. line,
            keyed = '\2\0' .. fence .. line .. '\0',
            lease = holder.name .. cmsgpack.pack(token) .. packed_text(task) .. packed_text(queue)}
        common.plain = common.lease .. FRESH_MIDDLE
        of_token[line] = common
        holder.commons[#holder.commons + 1] = common
    end
    return common
end

local function holder_of(session, seq, pool)
    return {name = packed_text(session), mine = string.char(#session) .. session, commons = {},
        stamp = struct.pack(@row.seq:finished_at, seq, pool, now, NONE)}
end

-- Add a ClaimedJob to the answer, as msgpack in the order of its fields; in pieces, because every new text costs.
-- A payload ends with the `nil` of a job without a deadline.
local function add_claimed(parts, common, id, row, blob, plain)
    local n = #parts
    local middle = common.plain
    if not plain then
        local suspect, last_run, _, round, failures, orphans, strikes, _, deadline_at =
            struct.unpack(@row.suspect:deadline_at, row, @row.suspect)
        middle = common.lease .. cmsgpack.pack(failures + orphans + 1, round,
            {failures, orphans, strikes}, suspect == 1, last_run == 1)
        if deadline_at ~= NONE then
            blob = string.sub(blob, 1, -2) .. cmsgpack.pack(deadline_at)
        end
    end
    if #id == 26 then
        parts[n + 1] = LEASE_HEAD_26
        parts[n + 2] = id
    else
        parts[n + 1] = LEASE_HEAD
        parts[n + 2] = packed_text(id)
    end
    parts[n + 3] = middle
    parts[n + 4] = blob
end

-- A msgpack list of the claimed jobs, which have four pieces each.
function claimed_list(parts)
    return '\220' .. struct.pack('>I2', #parts / 4) .. table.concat(parts)
end

-- Ready to blocked for jobs whose task no live session knows, so that claims do not look at them again and again.
local function block_strangers(line, task, limit)
    local strangers = redis.call('ZRANGE', P .. line, 0, limit - 1)
    for _, place in ipairs(strangers) do
        local r = find_row(string.sub(place, @place.id))
        leave(r)
        r.state = BLOCKED
        enter(r, 'task:' .. task)
        local cause = '{"kind":"Needs","what":"task","name":' .. cjson.encode(task) .. '}'
        record(r, 'blocked', nil, nil, cause)
        count_moves(r.queue, 'block', READY, BLOCKED, 1)
    end
    return #strangers
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

-- Where there are too many lines: some of them, others at each moment, so that no line waits for ever.
local function some_of(lines)
    if #lines <= MOST_HEADS then return lines end
    local start, some = now % #lines, {}
    for at = 1, MOST_HEADS do some[at] = lines[(start + at) % #lines + 1] end
    return some
end

-- The lines from which a pool may take; jobs of tasks that no session knows are blocked on the way. `bounds`: rules
-- of queues and breakers that are not closed, false where there are none.
local function lines_for(pool, limits, per_queue, paused, free, bounds)
    local sources, lines = {}, {}
    local tasks, slots, suspects = pool[1], pool[4], pool[3]
    local strangers = CHUNK
    -- By task: whether the pool can run it, whether any session can; there are more lines than tasks.
    local runs, known = {}, {}
    for _, line in ipairs(redis.call('SMEMBERS', P .. 'lines')) do
        local queue, task = split(string.sub(line, 7))
        local limit = slots[queue] and slots[queue] - (per_queue[queue] or 0) or slots['*'] or 0
        limit = math.min(limit, free)
        if limit > 0 and not paused[queue] then
            if runs[task] == nil then
                runs[task] = redis.call('SISMEMBER', P .. 'tasks/' .. tasks, task) == 1
                known[task] = runs[task]
                    or tonumber(redis.call('HGET', P .. 'known', task) or 0) > 0
            end
            if runs[task] and bounds then
                limit = bounded(bounds, line, queue, task, limit, per_queue[queue] or 0)
            end
            if limit < 1 then
                -- The line is kept back for now.
            elseif runs[task] then
                limits[queue] = limit
                if suspects > 0 or string.sub(line, 1, 1) ~= 'a' then lines[#lines + 1] = line end
            elseif strangers > 0 and not known[task] then
                strangers = strangers - block_strangers(line, task, strangers)
            end
        end
    end
    for _, line in ipairs(some_of(lines)) do
        local queue, task = split(string.sub(line, 7))
        sources[#sources + 1] = {key = P .. line, line = line, queue = queue,
            alone = string.sub(line, 1, 1) == 'a', places = {}, scores = {}, at = 1, seen = 0,
            ended = false, probes = bounds and bounds.tripped[task], weight = admission.weight(task)}
    end
    return sources
end

-- Whether a job has been through nothing and has no limits.
local function is_plain(row)
    return string.find(row, PLAIN, @row.suspect, true) == @row.suspect
end

-- The same, whatever its flags are.
local FRESH = struct.pack(@row.round:requested_at, 1, 0, 0, 0, NONE, NONE, NONE)
local UNHURT = struct.pack(@row.failures:orphans, 0, 0)
local NO_LIMITS = struct.pack(@row.expires_at:deadline_at, NONE, NONE)

local function is_fresh(row)
    return string.find(row, FRESH, @row.round, true) == @row.round
        and string.sub(row, @row.suspect, @row.last_run.last) == '\0\0'
end

-- Claim the picked jobs: write their rows and what the session holds, and add them to the answer. `line` is that
-- of all of them, or nil.
local function run(session, seq, pool, ids, line, parts, per_queue)
    local rows = redis.call('HMGET', P .. 'row', unpack(ids))
    local blobs = redis.call('HMGET', P .. 'job', unpack(ids))
    local holder, admitted = holder_of(session, seq, pool), admission.admitted
    local changed, held, limited, keyed, spots, permitted = {}, {}, {}, {}, {}, {}
    for place = 1, #ids do
        local id, row, blob = ids[place], rows[place], blobs[place]
        -- A job without its row cannot run; fsck finds it. A job without its payload is quarantined later.
        if row then
            blob = blob or ''
            local token = struct.unpack(@row.token.format, row, @row.token)
            token = (token > base and token or base) + 1
            local common = common_of(holder, token,
                line or string.sub(row, @row.session + string.byte(row, @row.session_length)))
            local kept, plain, weight = common.held, is_plain(row), admitted[id]
            if not plain then
                local flags = string.byte(row, @row.flags)
                plain = is_fresh(row)
                if not plain and string.sub(row, @row.expires_at, @row.deadline_at.last) ~= NO_LIMITS then
                    limited[#limited + 1] = id
                end
                -- A job that failed before has an error, which its success must remove.
                if flagged(flags, FAMILY) or (not plain
                    and string.sub(row, @row.failures, @row.orphans.last) ~= UNHURT) then
                    kept = common.odd
                elseif flagged(flags, KEYED) and not weight then
                    kept = common.keyed
                    keyed[#keyed + 1] = id
                    spots[#spots + 1] = #held + 2
                end
            end
            if weight then
                kept = common.odd
                permitted[#permitted + 1] = {id, session, common.task, weight}
            end
            local n = #changed
            changed[n + 1] = id
            changed[n + 2] = common.head .. string.sub(row, @row.suspect, @row.number.last)
                .. common.tail
            held[n + 1] = id
            held[n + 2] = kept
            common.count = common.count + 1
            add_claimed(parts, common, id, row, blob, plain)
            hold(id, token)
        end
    end
    if #held == 0 then return end
    if #keyed > 0 then
        for place, text in ipairs(redis.call('HMGET', P .. 'extra', unpack(keyed))) do
            held[spots[place]] = held[spots[place]] .. key_in(text)
        end
    end
    redis.call('HSET', P .. 'row', unpack(changed))
    redis.call('HSET', P .. 'held/' .. session, unpack(held))
    if #limited > 0 then redis.call('ZREM', P .. 'lapse', unpack(limited)) end
    admission.keep(permitted)
    for _, common in ipairs(holder.commons) do
        per_queue[common.queue] = (per_queue[common.queue] or 0) + common.count
        count_moves(common.queue, 'claim', READY, RUNNING, common.count)
    end
end

-- Claim jobs for the session and add them to `parts`. Returns when more may be claimed of what was kept back, or
-- nil.
function claim(session, seq, pools, gate, parts)
    local paused, per_queue = {}, {}
    if gate then admission.open(gate) end
    local bounds = ruled and read_bounds()
    for _, queue in ipairs(redis.call('SMEMBERS', P .. 'paused')) do paused[queue] = true end
    local lapsed = redis.call('ZCOUNT', P .. 'lapse', '-inf', whole(now)) > 0
    for place, pool in ipairs(pools) do
        local free = math.min(pool[2], CHUNK)
        if free > 0 then
            local limits = {}
            local sources = lines_for(pool, limits, per_queue, paused, free, bounds)
            if #sources > 0 then
                local ids
                if bounds and bounds.weighted and #sources > 1 then
                    ids = pick_by_weight(sources, limits, free, pool[3], lapsed, bounds.rules)
                else
                    ids = pick(sources, limits, free, pool[3], lapsed)
                end
                take_out(sources)
                local line = #sources == 1 and string.sub(sources[1].line, 7) or nil
                if #ids > 0 then run(session, seq, place, ids, line, parts, per_queue) end
            end
        end
    end
    breakers.keep_tries()
    return bounds and take_from_bounds(bounds, per_queue)
end

-- The jobs that an exchange of the session claimed, as far as it still holds them, in the same order.
function claimed_before(session, seq)
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
        return comes_before(a, b)
    end)
    local holder = holder_of(session, seq, 0)
    for _, r in ipairs(found) do
        local blob = redis.call('HGET', P .. 'job', r.id)
        add_claimed(parts, common_of(holder, r.token, r.line), r.id, r.text, blob, is_plain(r.text))
    end
    return parts
end

end
