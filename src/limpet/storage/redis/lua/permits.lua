-- permits: the permits that hosts have given.
-- purpose: reads only.
-- params:  given[4] server, or false for all
-- returns: {0, permits as they are kept (include/permits.lua)}
-- include: frame
-- include: permits

if not given[4] then return {0, redis.call('ZRANGE', P .. 'permits', 0, -1)} end
local texts = {}
for _, p in ipairs(permits.of(given[4])) do texts[#texts + 1] = p.text end
return {0, texts}
