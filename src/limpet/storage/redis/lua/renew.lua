-- renew: hold everything that a session has for one lease from now.
-- purpose: live to live, or to draining; one write, however much is held.
-- params:  session, what has begun (id, token), draining, whether the lease is not over by the
--          holder's own clock, the seq of the last exchange that the caller saw answered.
-- returns: {0, standing, moment, seq, count, total, cancels (pairs of id and token), paused, epoch};
--          {1} for a session that is not there.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: fence

local id = given[4]
local s = find_session(id)

-- include: write
-- include: unblock

if not s or s.seq < given[8] then admit_older_data() end
if not s then return {1} end

local where = standing(s)
local moment = s.moment
if where == PAST and given[7] then where = s.state end
if where == LIVE or where == DRAINING then
    moment = now_lease + s.lease
    if given[6] then where = DRAINING end
    redis.call('HSET', P .. 'session/' .. id, 'moment', whole(moment), 'renewed_at', whole(now),
        'state', where)
    redis.call('ZADD', P .. 'moments', whole(moment), id)
    -- What blocked jobs wait for may have come in more than one chunk.
    unblock(s.tasks)
end
if where ~= DEAD then mark_begun(id, given[5]) end
local cancels = {}
for _, job in ipairs(redis.call('SMEMBERS', P .. 'cancels/' .. id)) do
    local r = find_row(job)
    if #cancels < 2000 and r and r.state == RUNNING and r.session == id then
        cancels[#cancels + 1] = job
        cancels[#cancels + 1] = whole(r.token)
    end
end
finish()
return {0, where, whole(moment), s.seq, s.count, whole(s.total), cancels,
    redis.call('SMEMBERS', P .. 'paused'), meta[1]}
