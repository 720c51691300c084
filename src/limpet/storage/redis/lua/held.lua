-- held: what the store thinks a session holds.
-- purpose: reads only.
-- params:  session.
-- returns: {0, pairs of id and token, in the order of the ids}.
-- include: frame
-- include: row

local ids = redis.call('SMEMBERS', P .. 'held/' .. given[4])
table.sort(ids)
local leases = {}
for _, id in ipairs(ids) do
    local r = find_row(id)
    if r then
        leases[#leases + 1] = id
        leases[#leases + 1] = whole(r.token)
    end
end
return {0, leases}
