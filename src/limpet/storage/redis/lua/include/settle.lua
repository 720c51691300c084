-- settle: running to succeeded, many at once, while their leases hold.
-- purpose: the hot path; everything else that may become of an attempt is in outcome.lua.

-- The completes stand in ARGV: ids from 2, then their tokens as one text, then pairs of id and
-- result where that is not null. `places` are their places among all settlements.
local function complete_many(session, number, places, rejected)
    if number == 0 then return end
    local rows = redis.call('HMGET', P .. 'row', unpack(ARGV, 2, 1 + number))
    local tokens = ARGV[2 + number]
    local mine = string.char(#session) .. session
    local mine_end = 100 + #mine
    local finished = struct.pack('>d', now)
    local finished_text = whole(now)
    local changed, ended, ids, failed, lines, refused = {}, {}, {}, {}, {}, {}
    for place = 1, number do
        local id, row = ARGV[1 + place], rows[place]
        local token = string.sub(tokens, 8 * place - 7, 8 * place)
        if row and string.byte(row, 1) == RUNNING and string.sub(row, 3, 10) == token
            and string.sub(row, 101, mine_end) == mine then
            local line = string.sub(row, mine_end + 1)
            lines[line] = (lines[line] or 0) + 1
            ids[#ids + 1] = id
            changed[#changed + 1] = id
            changed[#changed + 1] = '\6' .. string.sub(row, 2, 23) .. finished
                .. string.sub(row, 32)
            ended[#ended + 1] = finished_text
            ended[#ended + 1] = id
            if string.sub(row, 39, 46) ~= '\0\0\0\0\0\0\0\0' then failed[#failed + 1] = id end
            if string.sub(row, 87, 94) ~= NONE_8 then
                redis.call('SREM', P .. 'cancels/' .. session, id)
            end
            let_go(id, (struct.unpack('>I8', token)))
        else
            refused[id] = true
            local fence = struct.unpack('>I8', token)
            reject(rejected, places and places[place] or place, session, id, session, fence,
                'complete')
        end
    end
    if #ids == 0 then return end
    redis.call('HSET', P .. 'row', unpack(changed))
    redis.call('SREM', P .. 'held/' .. session, unpack(ids))
    redis.call('ZADD', P .. 'finished/succeeded', unpack(ended))
    -- What failed before left its error behind.
    if #failed > 0 then redis.call('HDEL', P .. 'error', unpack(failed)) end
    if #ids == number and #ARGV > 2 + number then
        redis.call('HSET', P .. 'result', unpack(ARGV, 3 + number))
    else
        for at = 3 + number, #ARGV, 2 do
            if not refused[ARGV[at]] then redis.call('HSET', P .. 'result', ARGV[at], ARGV[at + 1]) end
        end
    end
    for line, count in pairs(lines) do
        count_moves((split(line)), 'complete', RUNNING, SUCCEEDED, count)
    end
end

-- Settlements of any kind, one after the other, so that of two words on one lease the first counts.
local function settle_each(session, alive, settlements, rejected)
    for _, said in ipairs(settlements) do
        local id, token, holder = said[3], said[4], said[5]
        local r = alive and holder == session and find_row(id)
        if r and holds(r, session, token) then
            let_go(id, token)
            apply(r, said)
        else
            reject(rejected, said[1], session, id, holder, token, said[2])
        end
    end
end
