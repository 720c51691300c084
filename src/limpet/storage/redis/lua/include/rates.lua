-- rates: how many jobs of a queue or key may begin by its rate. The key `given` has until when each rate is given
--          out, under `queue:` and the queue's name, or `key:` and the key's.

-- A rate is {count, period, burst}; the arithmetic is that of domain/rate.py.
local rates = {}

function rates.step(rate)
    local sum = rate[2] + rate[1] - 1
    return (sum - math.fmod(sum, rate[1])) / rate[1]
end

-- How many jobs may begin now.
function rates.allowed(rate, given_until)
    local step = rates.step(rate)
    return math.floor((now + rate[3] * step - math.max(given_until, now)) / step)
end

function rates.taken(rate, given_until, jobs)
    return math.max(given_until, now) + jobs * rates.step(rate)
end

function rates.next_at(rate, given_until)
    return math.max(now, given_until - (rate[3] - 1) * rates.step(rate))
end

-- Until when the rate of a member of `given` is given out.
function rates.given(member)
    return tonumber(redis.call('ZSCORE', P .. 'given', member) or 0)
end

function rates.keep(member, given_until)
    redis.call('ZADD', P .. 'given', whole(given_until), member)
end
