-- repair: give a quarantined job arguments that fit.
-- purpose: quarantined to ready, or to blocked for its key; its counters stay.
-- params:  given[4] job
--          given[5] the part of the payload before the options (msgpack)
--          given[6] the part after them (msgpack)
--          given[7] other options, or false
-- returns: {0, state after it}
--          {1} the job is not there
--          {2, state} the job is in another state
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after

local r = find_row(given[4])
if not r then return {1} end
if r.state ~= QUARANTINED then return {2, STATES[r.state]} end

-- include: write

local kept = redis.call('HGET', P .. 'job', r.id)
local options = given[7] or (stored.packed('\149' .. (kept or '')) or {})[3]
if type(options) ~= 'string' then options = '{}' end
redis.call('HSET', P .. 'job', r.id, given[5] .. cmsgpack.pack(options) .. given[6])
redis.call('HDEL', P .. 'error', r.id)
leave(r)
r.ready_at, r.session, r.claimed_at = now, '', NONE
become_ready(r, 'repair', QUARANTINED)
record(r, 'repaired')
settle_rest()
finish()
return {0, STATES[find_row(r.id).state]}
