-- many: a command with a list of any length; Lua can pass only some thousand words at once.

local function many(command, key, words)
    for start = 1, #words, 1000 do
        redis.call(command, key, unpack(words, start, math.min(start + 999, #words)))
    end
end
