-- recover: take back the jobs of a dead session, at most a thousand.
-- purpose: running to ready, to failed at a cap, or to cancelled where that was requested.
-- params:  given[4] session
-- returns: {0, ready, failed, cancelled, more}
--          ready, failed, cancelled: how many jobs
--          more: 1 if there may be more
-- include: frame
-- include: row
-- include: session
-- include: digest
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family

local s = find_session(given[4])
if not s or s.state ~= DEAD then return {0, 0, 0, 0, 0} end

-- include: write
-- include: bounds
-- include: flows
-- include: permits
-- include: outcome

local key = P .. 'session/' .. s.id
local death = redis.call('HMGET', key, 'cause', 'charged')
local went = {[READY] = 0, [FAILED] = 0, [CANCELLED] = 0}
local ids = held_by(s.id)
local left = #ids
for place = 1001, left do ids[place] = nil end
for _, id in ipairs(ids) do
    local r = find_row(id)
    let_go(id, r.token)
    local target = lose_one(r, 'recover', death[1], r.begun == 1, death[2] == '1', nil, false)
    went[target] = went[target] + 1
end
if #ids > 0 then
    local count, total = hold_text(s)
    redis.call('HSET', key, 'count', count, 'total', total)
    if left == #ids then redis.call('SREM', P .. 'widowed', s.id) end
    finish()
end
return {0, went[READY], went[FAILED], went[CANCELLED], #ids == 1000 and 1 or 0}
