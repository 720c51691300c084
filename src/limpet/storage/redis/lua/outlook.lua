-- outlook: what a sweeper must know before it ends a session.
-- purpose: reads only.
-- params:  given[4] the longest lease that the sweeper watches, false for no limit
-- returns: {0, lease clock, server process, next_at, widowed}
--          server process: the one whose clock the lease clock is
--          next_at: when the next lease ends, or ''
--          widowed: how many dead sessions still have jobs
-- include: frame

local longest = given[4]
local STEP = 100

-- When the first lease ends that is no longer than `longest`; nearly always the first of all.
local function next_moment()
    local from = 0
    while true do
        local found = redis.call('ZRANGE', P .. 'moments', from, from + STEP - 1, 'WITHSCORES')
        for place = 1, #found, 2 do
            local lease = longest and redis.call('HGET', P .. 'session/' .. found[place], 'lease')
            if not lease or (stored.lease(lease) or 10000000) <= longest then
                return whole(tonumber(found[place + 1]))
            end
        end
        if #found < 2 * STEP then return '' end
        from = from + STEP
    end
end

return {0, whole(now_lease), given[3], next_moment(), redis.call('SCARD', P .. 'widowed')}
