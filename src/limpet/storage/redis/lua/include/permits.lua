-- permits: what hosts have given away of themselves; see storage/contract/gating.py.
-- layout:  a permit is one text: the length of the server's name in two bytes, that name, then a msgpack list of
--          its number among all permits, when it was given, its holder, the session, the task or name, thousandths
--          of a core, bytes, whether it is heavy. The holder is a job, or the session itself for a caller
--          outside. permits.py reads the same.
-- why:     `permits` has these texts as one sorted set, so that those of a server are found together and
--          those of others are not read; `permit_of` finds the permit of a holder.

-- Lua allows 200 local names in a script: hence a table.
local permits = {}

function permits.head_of(server)
    return struct.pack('>I2', #server) .. server
end

function permits.read(text)
    local p = stored.packed(string.sub(text, 3 + struct.unpack('>I2', text)))
    -- The weight of a permit that cannot be read is not known; it takes no room.
    if not p or type(p[6]) ~= 'number' or type(p[7]) ~= 'number' or type(p[2]) ~= 'number' then
        return nil
    end
    return {text = text, at = p[2], holder = p[3], session = p[4], cpu = p[6], memory = p[7],
        heavy = p[8]}
end

function permits.of(server)
    local head = permits.head_of(server)
    local found = redis.call('ZRANGEBYLEX', P .. 'permits', '[' .. head, '(' .. head .. '\255')
    local read = {}
    for _, text in ipairs(found) do read[#read + 1] = permits.read(text) end
    return read
end

-- Give permits on a server: {holder, session, what, weight} each; a weight is {cpu, memory, heavy}.
function permits.give(server, list)
    local number = redis.call('HINCRBY', KEYS[1], 'permitted', #list) - #list
    for place, permit in ipairs(list) do
        local weight = permit[4]
        local text = permits.head_of(server) .. cmsgpack.pack({number + place, now, permit[1], permit[2],
            permit[3], weight[1], weight[2], weight[3]})
        redis.call('ZADD', P .. 'permits', 0, text)
        redis.call('HSET', P .. 'permit_of', permit[1], text)
    end
end

-- Take back the permits of these holders; true if any had one.
function permits.take_back(holders)
    -- A store without permits must not pay for them.
    if #holders == 0 or redis.call('EXISTS', P .. 'permit_of') == 0 then return false end
    local texts, gone = {}, {}
    for place, text in ipairs(redis.call('HMGET', P .. 'permit_of', unpack(holders))) do
        if text then
            texts[#texts + 1] = text
            gone[#gone + 1] = holders[place]
        end
    end
    if #gone == 0 then return false end
    redis.call('ZREM', P .. 'permits', unpack(texts))
    redis.call('HDEL', P .. 'permit_of', unpack(gone))
    return true
end
