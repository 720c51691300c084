-- hosts: what hosts said of themselves and still holds.
-- purpose: reads only.
-- params:  server, or false for all.
-- returns: {0, server, until when it holds, when it was said in eight bytes and what, for each}.
-- include: frame

local told, found = {}, {}
if given[4] then
    local until_when = redis.call('ZSCORE', P .. 'hosts_until', given[4])
    if until_when and tonumber(until_when) > now then found = {given[4], until_when} end
else
    found = redis.call('ZRANGEBYSCORE', P .. 'hosts_until', '(' .. whole(now), '+inf', 'WITHSCORES')
end
for at = 1, #found, 2 do
    told[#told + 1] = found[at]
    told[#told + 1] = whole(tonumber(found[at + 1]))
    told[#told + 1] = redis.call('HGET', P .. 'hosts', found[at])
end
return {0, told}
