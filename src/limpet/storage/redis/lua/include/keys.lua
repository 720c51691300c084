-- keys: how many turns of a key are taken, and what limits them; see storage/contract/shaping.py.
--          Needs rates.lua.
-- why:     a turn is a flag on the row of the job that has it, and `turns` counts them by key, so that
--          nothing is lost with a worker. What a script changes is written once, at its end.
-- turns:   four times the number of turns that are taken; one more where jobs may wait for a turn, two more
--          where some of those may have rules of their own for the key. A job that leaves a line does not
--          change the number: the script that finds the line empty does.

local NO_RULES = {}

-- The extra of a job: key, unique, parent and rules.
local function read_extra(text)
    local e = stored.packed(text) or {}
    return {key = e[1], unique = e[2], parent = e[3], rules = e[6] or NO_RULES}
end

-- The key alone, which comes first in the list.
local function key_in(text)
    local head = string.byte(text, 2)
    if head >= 160 and head < 192 then return string.sub(text, 3, head - 158) end
    return cmsgpack.unpack(text)[1]
end

local function extra_of(r)
    if not r.extra then r.extra = read_extra(redis.call('HGET', P .. 'extra', r.id)) end
    return r.extra
end

-- Keys that this script has read, and the names of keys that may have a turn to give now.
local keys, freed = {}, {}
local keys_are_ruled

local function load_keys(wanted)
    local names, seen = {}, {}
    for _, name in ipairs(wanted) do
        if not keys[name] and not seen[name] then
            seen[name] = true
            names[#names + 1] = name
        end
    end
    if #names == 0 then return end
    if keys_are_ruled == nil then keys_are_ruled = redis.call('EXISTS', P .. 'key_rules') == 1 end
    local rules = keys_are_ruled and redis.call('HMGET', P .. 'key_rules', unpack(names))
    for place, count in ipairs(redis.call('HMGET', P .. 'turns', unpack(names))) do
        local was = tonumber(count or 0)
        local waits = was % 4
        local k = {name = names[place], was = was, count = (was - waits) / 4, lined = waits % 2 == 1,
            own_rules = waits > 1}
        if rules and rules[place] then
            local set = stored.json(rules[place]) or {}
            k.limit, k.rate = stored.number(set.limit, 1), stored.rate(set.rate)
        end
        keys[k.name] = k
    end
end

local function key_of(name)
    if not keys[name] then load_keys({name}) end
    return keys[name]
end

local function given_until(k)
    if not k.given then
        k.given = rates.given('key:' .. k.name)
    end
    return k.given
end

-- Whether the key has a turn for a job with these rules; if only time can give one, also when.
local function may_have_turn(k, rules)
    if k.count >= (k.limit or rules.key_limit or 1) then return false end
    local rate = k.rate or rules.key_rate
    if not rate or rates.allowed(rate, given_until(k)) > 0 then return true end
    return false, rates.next_at(rate, k.given)
end

local function take_turn(k, rules)
    k.count = k.count + 1
    local rate = k.rate or rules.key_rate
    if rate then k.given, k.paced = rates.taken(rate, given_until(k), 1), true end
end

local function give_back(name)
    local k = key_of(name)
    k.count = k.count - 1
    freed[name] = true
end

local function write_keys()
    local set, gone = {}, {}
    for name, k in pairs(keys) do
        local value = 4 * k.count + (k.lined and 1 or 0) + (k.lined and k.own_rules and 2 or 0)
        if value ~= k.was then
            if value > 0 then
                set[#set + 1] = name
                set[#set + 1] = value
            else
                gone[#gone + 1] = name
            end
            k.was = value
        end
        if k.paced then
            rates.keep('key:' .. name, k.given)
            k.paced = nil
        end
    end
    for start = 1, #set, 1000 do
        redis.call('HSET', P .. 'turns', unpack(set, start, math.min(start + 999, #set)))
    end
    for start = 1, #gone, 1000 do
        redis.call('HDEL', P .. 'turns', unpack(gone, start, math.min(start + 999, #gone)))
    end
end
