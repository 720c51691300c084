-- fence: the answer to a holder whose lease does not hold, and what a valid lease may still do.

-- `gone`, `already` or `lost`. The timeline records a loss, once for each lost lease, under the session of the
-- caller: a lease that the caller made up may name another one. A settlement that is older than the last hundred
-- events is forgotten: then the answer is `lost`, and the timeline records it again.
local function verdict(session, id, token, mine, tried)
    local r = find_row(id)
    if not r then return 'gone' end
    local recorded_before = false
    if mine and tried == 'complete' and r.state == SUCCEEDED and r.session == session
        and r.token == token then
        return 'already'
    end
    for _, event in ipairs(last_events_of(id)) do
        if event[3] == session and event[4] == token then
            if mine and event[7] == tried then return 'already' end
            recorded_before = recorded_before or event[2] == 'lease_lost'
        end
    end
    if not recorded_before then
        local cause = '{"kind":"LateHolder","tried":' .. cjson.encode(tried) .. '}'
        record(r, 'lease_lost', session, token, cause)
    end
    return 'lost'
end

-- Whether an attempt (job, session, token) may enqueue jobs. This is stricter than for a settlement: once the lease
-- is over, the job may start elsewhere at any time.
local function may_enqueue(fence)
    local s = find_session(fence[2])
    local where = s and standing(s)
    return holds(find_row(fence[1]), fence[2], fence[3]) and (where == LIVE or where == DRAINING)
end

-- Record the lost lease of an attempt that must not enqueue.
local function refuse_enqueue(fence)
    verdict(fence[2], fence[1], fence[3], true, 'enqueue jobs from')
    finish()
end

-- Add a lease that does not hold to the rejected ones, with its place among the settlements.
local function reject(rejected, place, session, id, holder, token, tried)
    local answer = verdict(session, id, token, holder == session, tried)
    rejected[#rejected + 1] = {place, id, holder, token, answer}
end

-- Keep which held jobs have started; jobs that are not held are left out.
local function mark_begun(session, begun)
    local key = P .. 'held/' .. session
    for start = 1, #begun, 1000 do
        local ids, changed = {}, {}
        for at = start, math.min(start + 999, #begun) do ids[#ids + 1] = begun[at][1] end
        for place, held in ipairs(redis.call('HMGET', key, unpack(ids))) do
            if held and struct.unpack(@held.token.format, held, @held.token)
                == begun[start + place - 1][2] then
                changed[#changed + 1] = ids[place]
                changed[#changed + 1] = string.sub(held, @held.kind, @held.kind.last) .. '\1'
                    .. string.sub(held, @held.token)
            end
        end
        if #changed > 0 then redis.call('HSET', key, unpack(changed)) end
    end
end
