-- held: the jobs that a session holds, as the store sees it.
-- purpose: reads only.
-- params:  given[4] session
-- returns: {0, pairs of id and token, in the order in which the jobs were enqueued}
-- include: frame
-- include: row

local rows, leases = {}, {}
for _, id in ipairs(held_by(given[4])) do rows[#rows + 1] = find_row(id) end
table.sort(rows, function(a, b) return a.number < b.number end)
for _, r in ipairs(rows) do
    leases[#leases + 1] = r.id
    leases[#leases + 1] = whole(r.token)
end
return {0, leases}
