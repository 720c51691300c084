-- broken: counts broken rules, each with its first example.

local broken, order = {}, {}

local function wrong(rule, example)
    if not broken[rule] then
        broken[rule] = {rule, 0, example}
        order[#order + 1] = rule
    end
    broken[rule][2] = broken[rule][2] + 1
end

local function found_wrong()
    local list = {}
    for _, rule in ipairs(order) do list[#list + 1] = broken[rule] end
    return list
end
