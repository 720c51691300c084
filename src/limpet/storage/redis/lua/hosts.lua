-- hosts: what hosts said of themselves and still holds.
-- purpose: reads only.
-- params:  none.
-- returns: {0, server, until when it holds, when it was said in eight bytes and what, for each}.
-- include: frame

local told = {}
local found = redis.call('ZRANGEBYSCORE', P .. 'hosts_until', '(' .. whole(now), '+inf', 'WITHSCORES')
for at = 1, #found, 2 do
    told[#told + 1] = found[at]
    told[#told + 1] = whole(tonumber(found[at + 1]))
    told[#told + 1] = redis.call('HGET', P .. 'hosts', found[at])
end
return {0, told}
