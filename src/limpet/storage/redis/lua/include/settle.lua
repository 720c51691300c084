-- settle: running to succeeded, many at once, while their leases hold.
-- purpose: the hot path; all other ends of an attempt are in outcome.lua.

-- Jobs that have succeeded leave the hash of what is held after new jobs have entered it: Redis shrinks a table that
-- is nearly empty, and would have to grow it again.
local settled = {}

local function let_settled_go(session)
    if #settled > 0 then redis.call('HDEL', P .. 'held/' .. session, unpack(settled)) end
end

-- Settle plain successes. ARGV[2] and on: their ids, then their tokens as one text (one for all where they are the
-- same), then pairs of id and result where that is not null. `places` are their places among all settlements.
local function complete_many(session, number, places, rejected)
    if number == 0 then return end
    local key = P .. 'held/' .. session
    local held = redis.call('HMGET', key, unpack(ARGV, 2, 1 + number))
    local tokens = ARGV[2 + number]
    local same = #tokens == 8
    local at = whole(now)
    local over, ids, counts, plain, odd, backs = {}, {}, {}, {}, {}, {}
    for place = 1, number do
        local id, kept = ARGV[1 + place], held[place]
        local token = same and tokens or string.sub(tokens, 8 * place - 7, 8 * place)
        -- Texts of a batch are alike: each is read once.
        local fields = kept and plain[kept]
        local key
        if kept and not fields then
            local kind = string.byte(kept, @held.kind)
            -- Texts with a key differ in the key alone.
            if kind == 2 then
                local zero = string.find(kept, '\0', @held.line, true)
                key = string.sub(kept, zero + 1)
                kept = '\0\0' .. string.sub(kept, @held.token, zero - 1)
                fields = plain[kept]
            end
            if not fields then
                local slash = string.find(kept, '/', @held.line, true)
                -- token as text, whether it is plain, token, queue
                fields = {string.sub(kept, @held.token, @held.token.last), kind ~= 1,
                    (struct.unpack(@held.token.format, kept, @held.token)),
                    string.sub(kept, @held.line, slash - 1)}
                plain[kept] = fields
            end
        end
        if fields and fields[1] == token then
            let_go(id, fields[3])
            if fields[2] then
                counts[fields[4]] = (counts[fields[4]] or 0) + 1
                if key then backs[#backs + 1] = key end
                ids[#ids + 1] = id
                over[#over + 1] = at
                over[#over + 1] = id
            else
                odd[id] = true
            end
        else
            odd[id] = false
            reject(rejected, places and places[place] or place, session, id, session,
                struct.unpack('>I8', token), 'complete')
        end
    end
    if #ids > 0 then redis.call('ZADD', P .. 'finished/succeeded', unpack(over)) end
    settled = ids
    for queue, count in pairs(counts) do
        count_moves(queue, 'complete', RUNNING, SUCCEEDED, count)
    end
    if #backs > 0 then
        load_keys(backs)
        for _, key in ipairs(backs) do give_back(key) end
    end
    local last = #ARGV
    if next(odd) == nil and last > 2 + number then
        redis.call('HSET', P .. 'result', unpack(ARGV, 3 + number))
        return
    end
    for id, holds_it in pairs(odd) do
        if holds_it then complete_one(find_row(id)) end
    end
    for place = 3 + number, last, 2 do
        if odd[ARGV[place]] ~= false then
            redis.call('HSET', P .. 'result', ARGV[place], ARGV[place + 1])
        end
    end
end

-- Settlements of any kind, one after the other, so that of two settlements of one lease the first counts.
local function settle_each(session, alive, settlements, rejected)
    for _, settlement in ipairs(settlements) do
        local id, token, holder = settlement[3], settlement[4], settlement[5]
        local r = alive and holder == session and find_row(id)
        if r and holds(r, session, token) then
            let_go(id, token)
            apply(r, settlement)
        else
            reject(rejected, settlement[1], session, id, holder, token, settlement[2])
        end
    end
end
