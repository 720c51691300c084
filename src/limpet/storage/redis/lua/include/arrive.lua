-- arrive: writes new jobs, by enqueue or with a flow. Needs family.lua, flows.lua.
-- purpose: (nothing) to ready, scheduled or blocked; a job whose id is there stays as it is.
-- params:  a batch, a table of:
--          number: how many jobs
--          shapes: what jobs have in common, each a list: 1 the row from suspect to priority, 2 line,
--                  3 priority, 4 scheduled_for or false, 5 lapses_at or false
--          kinds: the shape of each job, or false where there is only one shape
--          extras: of jobs with a key, a unique, a parent or rules {place, flags, msgpack}
--          texts, first: pairs of id and blob, and where in `texts` they begin
--          caps: by queue, or false
--          all_or_none: whether one refused job refuses all
--          drains: whether drained queues refuse jobs
--          flow: whether these are jobs of a flow that is written out
-- returns: letters, numbers, holders, alike; or nil, a job and its parent that is not there
--          letters, one for each job: r, s, b a new job that is ready, scheduled, blocked; c a new job that was
--                  replaced at once; f the queue is full; d the queue is drained; u its unique is held; a
--                  digit: the state of a job that was there
--          numbers: how many jobs wait ahead of each job with the letter f
--          holders: {job, state} of who holds the unique of each job with the letter u
--          alike: whether the first letter is that of all jobs
-- why:     everything is checked before the first write.

-- Lua allows 200 local names in a script: only these are seen outside.
local take_in
do

local CHILDREN = 'children:'

local function shape_up(shape)
    local later = shape[4] and shape[4] > now
    local ready_at = later and shape[4] or now
    shape.state = later and SCHEDULED or READY
    shape.before = struct.pack(@row.state:finished_at, shape.state, 0, 0, 0, 0, NONE, NONE)
        .. shape[1] .. struct.pack(@row.ready_at:created_at, ready_at, now)
    shape.after = '\0' .. shape[2]
    shape.score = whole(later and ready_at or ready_at - shape[3] * MINUTE_US)
    shape.place = ready_at - shape[3] * MINUTE_US
    shape.key = P .. (later and 'scheduled' or 'ready/' .. shape[2])
    shape.queue, shape.task = split(shape[2])
end

-- Lists of words by key, for one command each.
local function listed(lists, key)
    local list = lists[key]
    if not list then
        list = {}
        lists[key] = list
    end
    return list
end

local function add_pair(list, one, two)
    local n = #list
    list[n + 1] = one
    list[n + 2] = two
end

-- The job that holds the unique of a new one, from the same call or from the store; whether it is in the way,
-- and not to be replaced; whether it waits.
local function rival_of(b, task, held)
    local of_call = held[task .. '/' .. b.extra.unique]
    if of_call then return of_call, not b.extra.rules.replaces, true end
    local other = unique_holder(task, b.extra.unique)
    if not other then return nil, false, false end
    return other.id, not b.extra.rules.replaces, other.state <= BLOCKED
end

-- A parent must be new in the same call, or wait for children; jobs of a flow may come in any order.
local function lacks_parent(batch, parent, of_call)
    if batch.flow or of_call[parent] then return false end
    return redis.call('HEXISTS', P .. 'pending', parent) == 0
end

-- Decide the letter of each job, before anything is written.
local function judge(batch, ids, there, shape_of)
    local verdict = {letters = {}, wait_of = {}, holders = {}, replaced = {}, beside = {}, held = {},
        plain = not batch.caps, fresh = 0}
    local letters, waiting, of_call, draining, refused = verdict.letters, {}, {}, {}, false
    -- A refused child would leave its parent waiting, and a refused parent would leave its children alone.
    local as_one = batch.all_or_none
    for _, extra in ipairs(batch.extras) do
        local text = extra[3]
        verdict.beside[extra[1]] = {flags = extra[2], text = text,
            extra = extra[2] == KEYED and {key = key_in(text), rules = NO_RULES} or read_extra(text)}
        as_one = as_one or verdict.beside[extra[1]].extra.parent
    end
    if batch.drains then
        for _, queue in ipairs(redis.call('SMEMBERS', P .. 'draining')) do draining[queue] = true end
    end
    if #batch.extras > 0 then
        verdict.plain = false
        for place, id in ipairs(ids) do if not there[place] then of_call[id] = place end end
    end
    local simple = #batch.extras == 0 and not batch.caps and not next(draining)
    for place, id in ipairs(ids) do
        local shape, b = shape_of(place), verdict.beside[place]
        local rival, in_the_way, waits
        if there[place] then
            letters[place] = string.char(48 + string.byte(present(id, there[place]), @row.state))
            verdict.plain = false
        elseif simple then
            letters[place] = shape.state == READY and 'r' or 's'
        elseif draining[shape.queue] then
            letters[place] = 'd'
            refused = true
        else
            if b and b.extra.parent and lacks_parent(batch, b.extra.parent, of_call) then
                return nil, id, b.extra.parent
            end
            if b and b.extra.unique then
                rival, in_the_way, waits = rival_of(b, shape.task, verdict.held)
            end
            letters[place] = in_the_way and 'u' or shape.state == READY and 'r' or 's'
            local cap = not in_the_way and batch.caps and batch.caps[shape.queue]
            if cap then
                local ahead = waiting[shape.queue] or waiting_in(shape.queue)
                if ahead >= cap then
                    letters[place] = 'f'
                    verdict.wait_of[place] = ahead
                    refused = true
                else
                    ahead = ahead + 1
                end
                waiting[shape.queue] = ahead
            end
        end
        if letters[place] == 'r' or letters[place] == 's' then
            verdict.fresh = verdict.fresh + 1
            if b and b.extra.unique then
                verdict.held[shape.task .. '/' .. b.extra.unique] = id
                if rival and waits then add_pair(verdict.replaced, rival, id) end
            end
        else
            verdict.plain = false
            if letters[place] == 'u' then verdict.holders[place] = rival end
        end
    end
    for place, b in pairs(verdict.beside) do
        local above = b.extra.parent and of_call[b.extra.parent]
        -- A parent that is a duplicate does not wait for these children, except in a flow.
        if above and letters[above] == 'u' and not batch.flow
            and (letters[place] == 'r' or letters[place] == 's') then
            return nil, ids[place], b.extra.parent
        end
    end
    if refused and as_one then
        verdict.fresh = 0
        verdict.replaced = {}
        for place in ipairs(ids) do
            local letter = letters[place]
            if letter == 'r' or letter == 's' then
                letters[place] = 'f'
                verdict.wait_of[place] = 0
            elseif letter == 'f' then
                verdict.wait_of[place] = waiting[shape_of(place).queue]
            end
        end
    end
    return verdict
end

-- What a job that is not plain has beside its row; returns its state and its flags.
local function beside_of(b, id, number, shape, out)
    local extra, flags, state = b.extra, b.flags, shape.state
    local children = extra.rules.children or 0
    local reason = nil
    add_pair(out.extra, id, b.text)
    if extra.parent then add_pair(listed(out.children, extra.parent), string.format('%d', number), id) end
    if extra.unique then add_pair(out.unique, shape.task .. '/' .. extra.unique, id) end
    if children > 0 then
        state, reason = BLOCKED, CHILDREN
        add_pair(out.pending, id, children)
        add_pair(out.needs, 0, id)
    elseif flagged(flags, KEYED) and state == READY then
        if turn_for(key_of(extra.key), extra.rules) then
            flags = flags + TURN
        else
            state, reason = BLOCKED, 'key:' .. extra.key
            add_pair(listed(out.waits, extra.key), shape.score, struct.pack(@place.number.format, number) .. id)
        end
    end
    if reason then add_pair(out.blocked, id, reason) end
    return state, flags
end

local function write_beside(out)
    for hash, pairs_ in pairs({extra = out.extra, unique = out.unique, pending = out.pending,
        blocked = out.blocked}) do
        if #pairs_ > 0 then redis.call('HSET', P .. hash, unpack(pairs_)) end
    end
    if #out.needs > 0 then redis.call('ZADD', P .. 'needs/' .. CHILDREN, unpack(out.needs)) end
    for parent, list in pairs(out.children) do
        redis.call('ZADD', P .. 'children/' .. parent, unpack(list))
    end
    for key, list in pairs(out.waits) do redis.call('ZADD', P .. 'waits/' .. key, unpack(list)) end
end

-- Turns of keys are taken in the order of the line: where priorities differ, that is not the order of the call.
local function in_order(numbers, shape_of)
    local places = {}
    for place in pairs(numbers) do places[#places + 1] = place end
    table.sort(places, function(a, b)
        local mine, theirs = shape_of(a).place, shape_of(b).place
        if mine ~= theirs then return mine < theirs end
        return a < b
    end)
    return places
end

local function write_new(batch, ids, verdict, shape_of)
    local out = {extra = {}, unique = {}, pending = {}, blocked = {}, needs = {}, children = {},
        waits = {}}
    local rows, every, lines, blobs, lapses, names = {}, {}, {}, {}, {}, {}
    local letters, beside, plain = verdict.letters, verdict.beside, verdict.plain
    local last = redis.call('HINCRBY', P .. 'store', 'enqueued', verdict.fresh) - verdict.fresh
    for _, b in pairs(beside) do
        if flagged(b.flags, KEYED) then names[#names + 1] = b.extra.key end
    end
    load_keys(names)
    local function write_one(place, number)
        local id, shape, b = ids[place], shape_of(place), beside[place]
        local rank = struct.pack(@row.number.format, number)
        local row, state = shape.before, shape.state
        if b then
            local flags
            state, flags = beside_of(b, id, number, shape, out)
            if flags > 0 then
                row = string.char(state) .. string.sub(row, @row.begun, @row.last_run.last)
                    .. string.char(string.byte(row, @row.flags) + flags) .. string.sub(row, @row.round)
            end
        end
        local n = #rows
        rows[n + 1] = id
        rows[n + 2] = row .. rank .. shape.after
        every[n + 1] = string.format('%d', number)
        every[n + 2] = id
        if state == BLOCKED then
            letters[place] = 'b'
            shape.blocked = (shape.blocked or 0) + 1
        else
            local queued = lines[shape.key]
            if not queued then
                queued = {}
                lines[shape.key] = queued
            end
            local m = #queued
            queued[m + 1] = shape.score
            queued[m + 2] = state == READY and rank .. id or id
            shape.count = (shape.count or 0) + 1
        end
        if shape[5] then add_pair(lapses, whole(shape[5]), id) end
        if not plain then
            blobs[n + 1] = id
            blobs[n + 2] = batch.texts[batch.first + 2 * place - 1]
        end
    end
    local numbers = {}
    local sorted = #batch.extras > 0 and #batch.shapes > 1
    for place = 1, batch.number do
        local letter = letters[place]
        if letter == 'r' or letter == 's' then
            last = last + 1
            if sorted then numbers[place] = last else write_one(place, last) end
        end
    end
    for _, place in ipairs(in_order(numbers, shape_of)) do write_one(place, numbers[place]) end
    if plain then
        redis.call('HSET', P .. 'job', unpack(batch.texts, batch.first,
            batch.first + 2 * batch.number - 1))
    else
        redis.call('HSET', P .. 'job', unpack(blobs))
    end
    redis.call('HSET', P .. 'row', unpack(rows))
    redis.call('ZADD', P .. 'all', unpack(every))
    for key, queued in pairs(lines) do redis.call('ZADD', key, unpack(queued)) end
    if #lapses > 0 then redis.call('ZADD', P .. 'lapse', unpack(lapses)) end
    for _, shape in ipairs(batch.shapes) do
        if shape.count then
            if shape.state == READY then redis.call('SADD', P .. 'lines', 'ready/' .. shape[2]) end
            count_moves(shape.queue, 'enqueue', nil, shape.state, shape.count)
        end
        if shape.blocked then
            count_moves(shape.queue, 'enqueue', nil, BLOCKED, shape.blocked)
        end
    end
    if #batch.extras > 0 then write_beside(out) end
end

-- What new jobs change for other jobs: those that they replace, their parents, their children.
local function introduce(batch, ids, verdict, there)
    local fresh = {}
    for place, id in ipairs(ids) do
        local letter = verdict.letters[place]
        fresh[id] = letter == 'r' or letter == 's' or letter == 'b'
    end
    for at = 1, #verdict.replaced, 2 do
        local by = cjson.encode(verdict.replaced[at + 1])
        cancel_waiting(find_row(verdict.replaced[at]), '{"kind":"Replaced","by":' .. by .. '}')
    end
    for place, id in ipairs(ids) do
        local b = verdict.beside[place]
        local parent = b and b.extra.parent
        if parent and not fresh[id] and (batch.flow or fresh[parent]) then
            -- A parent does not wait for a child that is not written, or that has ended before.
            local r = there[place] and find_row(id)
            if not r or r.state >= SUCCEEDED or extra_of(r).parent ~= parent then
                notify_parent(parent, nil)
            end
        elseif parent and batch.flow and redis.call('HEXISTS', P .. 'pending', parent) == 0
            and redis.call('HEXISTS', P .. 'row', parent) == 1 then
            stop_child(parent, id)
        end
    end
    for place, id in ipairs(ids) do
        local b = verdict.beside[place]
        if batch.flow and fresh[id] and b and (b.extra.rules.children or 0) > 0 then apply_ahead(id) end
    end
end

function take_in(batch)
    local shapes, kinds, texts, only = batch.shapes, batch.kinds, batch.texts, batch.shapes[1]
    for _, shape in ipairs(shapes) do shape_up(shape) end
    local function shape_of(place)
        return kinds and shapes[kinds[place]] or only
    end
    local ids = {}
    for place = 1, batch.number do ids[place] = texts[batch.first + 2 * place - 2] end
    local there = redis.call('HMGET', P .. 'row', unpack(ids))
    local verdict, job, parent = judge(batch, ids, there, shape_of)
    if not verdict then return nil, job, parent end
    if verdict.fresh > 0 then
        write_new(batch, ids, verdict, shape_of)
    end
    if #batch.extras > 0 and (verdict.fresh > 0 or batch.flow) then
        introduce(batch, ids, verdict, there)
    end
    settle_rest()
    local letters, numbers, holders = verdict.letters, {}, {}
    if verdict.plain then return letters, numbers, holders, not kinds end
    for place, id in ipairs(ids) do
        if letters[place] == 'f' then numbers[#numbers + 1] = verdict.wait_of[place] end
        if letters[place] == 'u' then
            local holder = find_row(verdict.holders[place])
            holders[#holders + 1] = {verdict.holders[place], holder and holder.state or 0}
        end
    end
    -- Some jobs went on to another state in the same step.
    if #verdict.replaced > 0 or next(readied) then
        for place, id in ipairs(ids) do
            if letters[place] == 'r' or letters[place] == 's' or letters[place] == 'b' then
                local state = find_row(id).state
                letters[place] = ({'s', 'r', 'b', [CANCELLED] = 'c'})[state]
            end
        end
    end
    return letters, numbers, holders, false
end

end
