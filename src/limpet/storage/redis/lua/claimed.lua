-- claimed: the jobs that the last exchange of a session claimed, each by itself.
-- purpose: reads only; called where the answer to that exchange cannot be read, because somebody wrote
--          nonsense into one of the jobs.
-- params:  given[4] session
--          given[5] seq
-- returns: {0, list of {job, row, payload}, in the order of the claim}
-- include: frame
-- include: row

local found = {}
for _, id in ipairs(held_by(given[4])) do
    local text = redis.call('HGET', P .. 'row', id)
    local r = text and read_row(id, text)
    if r and r.state == RUNNING and r.session == given[4] and r.seq == given[5] then
        r.text = text
        found[#found + 1] = r
    end
end
table.sort(found, function(a, b)
    if a.pool ~= b.pool then return a.pool < b.pool end
    return comes_before(a, b)
end)
for place, r in ipairs(found) do
    found[place] = {r.id, r.text, redis.call('HGET', P .. 'job', r.id)}
end
return {0, found}
