-- report: what running attempts say of themselves.
-- purpose: running to running; keep the last progress and the last lines.
-- params:  session, the most lines kept, reports (id, token, holder, progress as msgpack or false,
--          lines as msgpack).
-- returns: {0, rejected (msgpack list of place, job, holder, token, answer)}.
-- why:     at the memory limit progress is kept, which takes the place of what was there, and lines are
--          not, which would add to it; one that says so stands for them.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: keys
-- include: moves
-- include: fence

-- Adds nothing, since that key is never there; but at the limit it is refused, being the first write.
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
for place, said in ipairs(given[6]) do
    local id, token, holder = said[1], said[2], said[3]
    if alive and holder == given[4] and holds(find_row(id), given[4], token) then
        if said[4] then redis.call('HSET', P .. 'progress', id, said[4]) end
        local key = P .. 'log/' .. id
        if #said[5] > 0 then
            if full then leave_out(key) else redis.call('RPUSH', key, unpack(said[5])) end
            redis.call('LTRIM', key, -given[5], -1)
        end
    else
        reject(rejected, place, given[4], id, holder, token, 'report on')
    end
end
finish()
return {0, #rejected > 0 and cmsgpack.pack(rejected) or ''}
