-- release: hand jobs back uncharged.
-- purpose: running to ready in its old place, or to cancelled where that was requested.
-- params:  given[4] session
--          given[5] leases {place, 'release', id, token, holder, cause (JSON)}
-- returns: {0, rejected (msgpack list of {place, job, holder, token, answer}, or '')}
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: digest
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: fence
-- include: write
-- include: bounds
-- include: flows
-- include: permits
-- include: outcome
-- include: settle

local s = find_session(given[4])
local rejected = {}
settle_each(given[4], s and standing(s) ~= DEAD, given[5], rejected)
if held_count ~= 0 then
    local count, total = hold_text(s)
    redis.call('HSET', P .. 'session/' .. s.id, 'count', count, 'total', total)
end
finish()
return {0, #rejected > 0 and cmsgpack.pack(rejected) or ''}
