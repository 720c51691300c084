-- exchange: the hot path, settle and claim in one step.
-- purpose: running to the state that each settlement names; ready to running under this session; the same
--          seq gets the same answer.
-- params:  given[4] session
--          given[5] seq
--          given[6] number of plain successes, which follow in ARGV; see include/settle.lua
--          given[7] their places among all settlements, or false where there are no others
--          given[8] the other settlements; see settle.py
--          given[9] jobs that have begun {id, token}
--          given[10] pools {task digest, total, suspects, slots}, or false to claim nothing
--          given[11] observed attempts of breakers; see include/breakers.lua
--          given[12] the gate of the host; see include/admission.lua; or false
-- returns: {0, standing, rejected, claimed, quiet, next_at, unfinished, passed_over}
--          standing: that of the session
--          rejected: msgpack list of {place, job, holder, token, answer}, or ''
--          claimed: msgpack list of ClaimedJob
--          quiet: 1 if nothing is claimed for now, because the server took over
--          next_at: when more jobs may be claimed, or ''
--          unfinished: 1 if promote has something to do
--          passed_over: what the gate did not admit, as domain.permit.PassedOver
--          {1} the session is not there
--          {2, last seq} this seq is too old
--          {3, last seq} this seq shows that the store forgot an exchange
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

local session, seq = given[4], given[5]
local s = find_session(session)
local where = s and standing(s)
local repeated = s and seq == s.seq and seq > 0
if s and not repeated and seq < math.max(s.seq, 1) then return {2, s.seq} end

-- include: write
-- include: bounds
-- include: breakers
-- include: flows
-- include: permits
-- include: outcome
-- include: settle
-- include: gate
-- include: admission
-- include: pick
-- include: allowance
-- include: claim

if not s or seq > s.seq + 1 then
    admit_older_data()
    if not s then return {1} end
    return {3, s.seq}
end
local key = P .. 'session/' .. session
if repeated then
    -- A dead session must not run its jobs any more.
    local parts = where == DEAD and {} or claimed_before(session, seq)
    local kept = redis.call('HMGET', key, 'rejected', 'next_at', 'unfinished', 'passed_over')
    return {0, where, kept[1], claimed_list(parts), 0, kept[2] or '', kept[3] and 1 or 0,
        tonumber(kept[4] or 0)}
end
local alive = where ~= DEAD
local rejected, parts = {}, {}
if alive then mark_begun(session, given[9]) end
if alive then
    complete_many(session, given[6], given[7], rejected)
else
    for place = 1, given[6] do
        local tokens = ARGV[2 + given[6]]
        local token = struct.unpack('>I8', tokens, #tokens == 8 and 1 or 8 * place - 7)
        reject(rejected, given[7] and given[7][place] or place, session, ARGV[1 + place], session,
            token, 'complete')
    end
end
settle_each(session, alive, given[8], rejected)
settle_rest()
breakers.record_observed(given[11])
local waits = is_quiet(s.lease)
local next_at
if given[10] and where == LIVE and not (waits or closed) then
    next_at = claim(session, seq, given[10], given[12], parts)
end
next_at = next_at and whole(next_at) or ''
let_settled_go(session)
local count, total = hold_text(s)
local answer = #rejected > 0 and cmsgpack.pack(rejected) or ''
redis.call('HSET', key, 'seq', seq, 'count', count, 'total', total, 'rejected', answer)
finish()
-- Only families and flows leave something unfinished. That is rare, and so are these parts of the answer.
local unfinished = family_moved and is_unfinished()
if s.more then redis.call('HDEL', key, 'next_at', 'unfinished', 'passed_over') end
if next_at ~= '' then redis.call('HSET', key, 'next_at', next_at) end
if unfinished then redis.call('HSET', key, 'unfinished', 1) end
local passed_over = admission.passed_over
if passed_over > 0 then redis.call('HSET', key, 'passed_over', passed_over) end
return {0, where, answer, claimed_list(parts), waits and 1 or 0, next_at, unfinished and 1 or 0,
    passed_over}
