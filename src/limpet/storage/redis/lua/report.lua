-- report: keep the progress and the log lines of running attempts.
-- purpose: running to running; the last progress and the last lines are kept.
-- params:  given[4] session
--          given[5] most lines kept
--          given[6] reports {id, token, holder, progress (msgpack) or false, lines (msgpack)}
-- returns: {0, rejected (msgpack list of {place, job, holder, token, answer}, or '')}
-- why:     at the memory limit progress is kept, because it replaces what was there, and lines are not,
--          because they add to it; one line that tells of it stands for them.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: rates
-- include: keys
-- include: moves
-- include: fence

-- This adds nothing, because the key is never there; but it is the first write, and so it is refused at the limit.
local probe = redis.pcall('LPUSHX', P .. 'scratch', '')
local full = type(probe) == 'table' and string.find(probe.err, 'OOM', 1, true)

-- include: write

local MISSING = 'lines are missing here: the store was at its memory limit'

local function leave_out(key)
    local last = redis.call('LINDEX', key, -1)
    if (stored.packed(last) or {})[3] == MISSING then return end
    redis.call('RPUSH', key, cmsgpack.pack({now, 'warning', MISSING}))
end

local s = find_session(given[4])
local alive = s and standing(s) ~= DEAD
local rejected = {}
for place, report in ipairs(given[6]) do
    local id, token, holder = report[1], report[2], report[3]
    if alive and holder == given[4] and holds(find_row(id), given[4], token) then
        if report[4] then redis.call('HSET', P .. 'progress', id, report[4]) end
        local key = P .. 'log/' .. id
        if #report[5] > 0 then
            if full then leave_out(key) else redis.call('RPUSH', key, unpack(report[5])) end
            redis.call('LTRIM', key, -given[5], -1)
        end
    else
        reject(rejected, place, given[4], id, holder, token, 'report on')
    end
end
finish()
return {0, #rejected > 0 and cmsgpack.pack(rejected) or ''}
