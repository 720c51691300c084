-- enqueue: write new jobs.
-- purpose: (nothing) to ready or scheduled; an id that is there stays as it is.
-- params:  number of jobs, their shapes, the shape of each or false where there is one, caps by
--          queue or false, all or none, the fence (job, session, token) or false, what few jobs
--          have beside (place, msgpack). A shape is what jobs have in common: the row's bytes
--          32 to 78, line, priority, scheduled_for or false, lapses_at or false. ARGV
--          goes on with pairs of id and blob.
-- returns: {0, letters, waiting}: one letter for all or for each: r and s for a new job that is
--          ready or scheduled, f for one over the cap, with how many wait ahead of it, and the
--          state as a digit of one that was there; {4} where the fence is lost.
-- why:     everything is checked before the first write, and that is refused when the server is at
--          its memory limit; nothing is written then.
-- include: frame
-- include: row
-- include: session
-- include: moves
-- include: fence

-- A cluster that moves the slot key by key lets a script fail at the first key that is not here; that
-- must be before the first write. This key is never here. (Other scripts take it away first.)
redis.call('EXISTS', P .. 'scratch')

local number, shapes, kinds, caps, all_or_none, fence = given[4], given[5], given[6], given[7],
    given[8], given[9]
-- While the store is closing, jobs that still run may ask for others.
if closed and (closed ~= 'closing' or not fence) then return {-2} end

if fence then
    local s = find_session(fence[2])
    local where = s and standing(s)
    local held = holds(find_row(fence[1]), fence[2], fence[3])
    -- Stricter than for a settlement: past its moment the job may start elsewhere any time now.
    if not held or (where ~= LIVE and where ~= DRAINING) then
        redis.call('DEL', P .. 'scratch')
        verdict(fence[2], fence[1], fence[3], true, 'enqueue jobs from')
        finish()
        return {4}
    end
end
if number == 0 then return {0, '', {}} end

for _, shape in ipairs(shapes) do
    local later = shape[4] and shape[4] > now
    local ready_at = later and shape[4] or now
    shape.state = later and SCHEDULED or READY
    shape.before = string.char(shape.state) .. '\0' .. struct.pack('>I8I4Bdd', 0, 0, 0, NONE, NONE)
        .. shape[1] .. struct.pack('>dd', ready_at, now)
    shape.after = '\0' .. shape[2]
    shape.score = whole(later and ready_at or ready_at - shape[3] * MINUTE)
    shape.key = P .. (later and 'scheduled' or 'ready/' .. shape[2])
    shape.queue = split(shape[2])
end

local ids = {}
for place = 1, number do ids[place] = ARGV[2 * place] end
local there = redis.call('HMGET', P .. 'row', unpack(ids))

local waiting, wait_of, letters, refused, plain = {}, {}, {}, false, not caps
for place = 1, number do
    local shape = shapes[kinds and kinds[place] or 1]
    if there[place] then
        letters[place] = string.char(48 + string.byte(present(ids[place], there[place]), 1))
        plain = false
    else
        letters[place] = shape.state == READY and 'r' or 's'
        local cap = caps and caps[shape.queue]
        if cap then
            local ahead = waiting[shape.queue]
            if not ahead then
                ahead = 0
                for _, state in ipairs({'/ready', '/scheduled', '/blocked'}) do
                    local count = redis.call('HGET', P .. 'gauge', shape.queue .. state)
                    ahead = ahead + tonumber(count or 0)
                end
            end
            if ahead >= cap then
                letters[place] = 'f'
                wait_of[#wait_of + 1] = ahead
                refused = true
            else
                ahead = ahead + 1
            end
            waiting[shape.queue] = ahead
        end
    end
end
if refused and all_or_none then
    local answer = {}
    wait_of = {}
    for place = 1, number do
        local queue = shapes[kinds and kinds[place] or 1].queue
        if there[place] then
            answer[place] = letters[place]
        else
            answer[place] = 'f'
            wait_of[#wait_of + 1] = letters[place] == 'f' and waiting[queue] or 0
        end
    end
    return {0, table.concat(answer), wait_of}
end

local rows, every, places, blobs = {}, {}, {}, {}
local last = redis.call('HGET', P .. 'store', 'enqueued') or 0
for place, id in ipairs(ids) do
    local letter = letters[place]
    if letter == 'r' or letter == 's' then
        local shape = shapes[kinds and kinds[place] or 1]
        last = last + 1
        local rank = struct.pack('>I6', last)
        rows[#rows + 1] = id
        rows[#rows + 1] = shape.before .. rank .. shape.after
        every[#every + 1] = string.format('%d', last)
        every[#every + 1] = id
        local queued = places[shape.key]
        if not queued then
            queued = {}
            places[shape.key] = queued
        end
        queued[#queued + 1] = shape.score
        queued[#queued + 1] = shape.state == READY and rank .. id or id
        shape.count = (shape.count or 0) + 1
        if shape[5] then redis.call('ZADD', P .. 'lapse', whole(shape[5]), id) end
        if not plain then
            blobs[#blobs + 1] = id
            blobs[#blobs + 1] = ARGV[2 * place + 1]
        end
    end
end
if #rows > 0 then
    if plain then
        redis.call('HSET', P .. 'job', unpack(ARGV, 2, 2 * number + 1))
    else
        redis.call('HSET', P .. 'job', unpack(blobs))
    end
    redis.call('HSET', P .. 'row', unpack(rows))
    redis.call('HSET', P .. 'store', 'enqueued', whole(last))
    redis.call('ZADD', P .. 'all', unpack(every))
    for key, queued in pairs(places) do redis.call('ZADD', key, unpack(queued)) end
    for _, shape in ipairs(shapes) do
        if shape.count then
            if shape.state == READY then redis.call('SADD', P .. 'lines', 'ready/' .. shape[2]) end
            count_moves(shape.queue, 'enqueue', nil, shape.state, shape.count)
        end
    end
    for _, extra in ipairs(given[10]) do
        if not there[extra[1]] and letters[extra[1]] ~= 'f' then
            redis.call('HSET', P .. 'extra', ids[extra[1]], extra[2])
        end
    end
    finish()
end
local told = table.concat(letters)
if plain and not kinds then told = letters[1] end
return {0, told, wait_of}
