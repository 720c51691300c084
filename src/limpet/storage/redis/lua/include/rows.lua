-- rows: every job of the store in one script, some at a time.
-- why:     Lua keeps each text once, and hashes only some of its bytes: it compares thousands of rows that
--          differ in the others with each other, and 10,000 of them took seconds. So the rows that were
--          looked at are thrown away before the next are read.

local function each_row(look)
    local start = 0
    while true do
        local ids = redis.call('ZRANGE', P .. 'all', start, start + 499)
        if #ids == 0 then return end
        local texts = redis.call('HMGET', P .. 'row', unpack(ids))
        for at, id in ipairs(ids) do
            if texts[at] then look(id, present(id, texts[at])) end
        end
        start = start + #ids
        ids, texts = nil, nil
        collectgarbage()
    end
end
