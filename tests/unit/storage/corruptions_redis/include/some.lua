-- what every corruption begins with: P, a job in a state, a change of bytes in its row
local P = KEYS[1]
local function state_of(id, row)
    if redis.call('ZSCORE', P .. 'finished/succeeded', id) then return @state.succeeded end
    return string.byte(row, @row.state)
end
local function some(state)
    local rows = redis.call('HGETALL', P .. 'row')
    for at = 1, #rows, 2 do
        if state_of(rows[at], rows[at + 1]) == state then return rows[at], rows[at + 1] end
    end
    error('no job is in that state')
end
local function put(id, row, at, bytes)
    local changed = string.sub(row, 1, at - 1) .. bytes .. string.sub(row, at + #bytes)
    redis.call('HSET', P .. 'row', id, changed)
end
