-- fence: what is said to a holder whose lease does not hold.

-- `gone`, `already` or `lost`; the timeline tells a loss, once for each lost lease. The name told is
-- the caller's: a lease that it made up may carry somebody else's.
local function verdict(session, id, token, mine, tried)
    local r = find_row(id)
    if not r then return 'gone' end
    local complained = false
    if mine and tried == 'complete' and r.state == SUCCEEDED and r.session == session
        and r.token == token then
        return 'already'
    end
    for _, event in ipairs(events_of(id)) do
        if event[3] == session and event[4] == token then
            if mine and event[7] == tried then return 'already' end
            complained = complained or event[2] == 'lease_lost'
        end
    end
    if not complained then
        local cause = '{"kind":"LateHolder","tried":' .. cjson.encode(tried) .. '}'
        record(r, 'lease_lost', session, token, cause)
    end
    return 'lost'
end

-- Keep which held jobs have started; of others nothing is said.
local function mark_begun(session, begun)
    for _, lease in ipairs(begun) do
        local text = redis.call('HGET', P .. 'row', lease[1])
        if text and string.byte(text, 2) == 0 and holds(read_row(lease[1], text), session, lease[2])
        then
            local changed = string.sub(text, 1, 1) .. '\1' .. string.sub(text, 3)
            redis.call('HSET', P .. 'row', lease[1], changed)
        end
    end
end
