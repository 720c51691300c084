-- broken: what is found wrong, by rule, with the first example.

local broken, order = {}, {}

local function wrong(rule, example)
    if not broken[rule] then
        broken[rule] = {rule, 0, example}
        order[#order + 1] = rule
    end
    broken[rule][2] = broken[rule][2] + 1
end

local function found_wrong()
    local told = {}
    for _, rule in ipairs(order) do told[#told + 1] = broken[rule] end
    return told
end
