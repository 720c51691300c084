-- arriving: cargo is taken only by a store that is being filled, in the same move.
-- params:  given[4] is the move.
-- returns: {1} otherwise.

local record = redis.call('HGET', KEYS[1], 'relocation')
if closed ~= 'arriving' or not record or cjson.decode(record).id ~= given[4] then return {1} end
