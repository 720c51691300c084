-- write: the beginning of every script that writes, but for enqueue.
-- purpose: pass when the server is at its memory limit, and notice that it is another server.
-- why:     a script whose first write takes something away may go on at the limit; renewals, settles and
--          recovery must. A server process that has not written here before may have older data than the
--          last one: tokens then go on from the time of day, which is above all that were ever given. No
--          session is expired for one lease of its own, and nothing is claimed for the longest lease of the
--          known workers: a job that is ready in the older data may run in a session that has not noticed
--          yet, and by then that session has stopped it. Permits and once-keys run no jobs, and their
--          leases do not count.

local base = tonumber(meta[3] or 0)
local moved_at = tonumber(meta[4] or 0)
local quiet = tonumber(meta[5] or 0)
redis.call('DEL', P .. 'scratch')

-- Go on above every token that may have been given, and claim nothing at first.
local function take_over()
    base = math.max(now, base + 1000000)
    moved_at = now_lease
    quiet = 0
    for _, id in ipairs(redis.call('ZRANGE', P .. 'moments', 0, -1)) do
        local about = redis.call('HMGET', P .. 'session/' .. id, 'kind', 'lease')
        if about[1] ~= 'permit' and about[1] ~= 'once' then
            quiet = math.max(quiet, stored.lease(about[2]) or 0)
        end
    end
    redis.call('HSET', KEYS[1], 'run', given[3], 'base', whole(base), 'moved_at', whole(moved_at),
        'quiet', whole(quiet))
end

if given[3] ~= '' and given[3] ~= meta[2] then
    take_over()
elseif moved_at > now_lease then
    -- The clock was set back: count from now, not from a time to come.
    moved_at = now_lease
    redis.call('HSET', KEYS[1], 'moved_at', whole(moved_at))
end

-- Whether the server took over less than one lease ago.
local function is_quiet(lease)
    return moved_at > 0 and now_lease < moved_at + math.max(quiet, lease)
end

-- A session that is forgotten, wholly or in part, shows that the data are older than they were, though the server
-- process is the same: it may have copied them from a replica. (With the clock of a test a session may be made
-- up, and nothing is forgotten.)
local function admit_older_data()
    if not given[1] and not is_quiet(0) then take_over() end
end
