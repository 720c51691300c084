-- report: what running attempts say of themselves.
-- purpose: running to running; keep the last progress and the last lines.
-- params:  session, the most lines kept, reports (id, token, holder, progress as msgpack or false,
--          lines as msgpack).
-- returns: {0, rejected (msgpack list of place, job, holder, token, answer)}.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: moves
-- include: fence
-- include: write

local s = find_session(given[4])
local alive = s and standing(s) ~= DEAD
local rejected = {}
for place, said in ipairs(given[6]) do
    local id, token, holder = said[1], said[2], said[3]
    if alive and holder == given[4] and holds(find_row(id), given[4], token) then
        if said[4] then redis.call('HSET', P .. 'progress', id, said[4]) end
        if #said[5] > 0 then
            redis.call('RPUSH', P .. 'log/' .. id, unpack(said[5]))
            redis.call('LTRIM', P .. 'log/' .. id, -given[5], -1)
        end
    else
        reject(rejected, place, given[4], id, holder, token, 'report on')
    end
end
finish()
return {0, #rejected > 0 and cmsgpack.pack(rejected) or ''}
