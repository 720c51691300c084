-- renew: extend the lease of a session, and with it all that the session holds.
-- purpose: live to live, or to draining; one write, however much is held.
-- params:  given[4] session
--          given[5] jobs that have begun {id, token}
--          given[6] whether it drains
--          given[7] whether the lease is not over by the holder's own clock
--          given[8] seq of the last exchange whose answer the caller has
-- returns: {0, standing, moment, seq, count, total, cancels, paused, epoch}
--          count, total: the digest of what the session holds
--          cancels: pairs of id and token of jobs to cancel
--          paused: names of queues
--          {1} the session is not there
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: rates
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
    -- One call unblocks at most a thousand jobs: go on with those that are left.
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
