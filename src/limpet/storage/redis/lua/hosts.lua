-- hosts: what hosts have published and is not outdated.
-- purpose: reads only.
-- params:  given[4] server, or false for all
-- returns: {0, for each host: server, until when its report holds, the report}
--          report: eight bytes of the time at which it was published, then the text
-- include: frame

local reports, found = {}, {}
if given[4] then
    local until_when = redis.call('ZSCORE', P .. 'hosts_until', given[4])
    if until_when and tonumber(until_when) > now then found = {given[4], until_when} end
else
    found = redis.call('ZRANGEBYSCORE', P .. 'hosts_until', '(' .. whole(now), '+inf', 'WITHSCORES')
end
for at = 1, #found, 2 do
    reports[#reports + 1] = found[at]
    reports[#reports + 1] = whole(tonumber(found[at + 1]))
    reports[#reports + 1] = redis.call('HGET', P .. 'hosts', found[at])
end
return {0, reports}
