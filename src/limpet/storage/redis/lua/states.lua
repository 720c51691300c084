-- states: the states of those jobs that exist.
-- purpose: reads only.
-- params:  given[4] ids
-- returns: {0, for each id its state as a digit, 0 where there is no such job}
-- include: frame
-- include: row

local digits = {}
for start = 1, #given[4], 1000 do
    local last = math.min(start + 999, #given[4])
    for place, row in ipairs(redis.call('HMGET', P .. 'row', unpack(given[4], start, last))) do
        local id = given[4][start + place - 1]
        digits[#digits + 1] = row and string.byte(present(id, row), @row.state) or 0
    end
end
return {0, table.concat(digits)}
