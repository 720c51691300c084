-- exchange: the hot path, settle and claim in one step.
-- purpose: running to what each settlement says; ready to running under this session; the same seq
--          gets the same answer.
-- params:  session, seq, number of completes, their places or false, the other settlements, what
--          has begun (id, token), pools or false (task digest, total, suspects, slots), what was
--          observed of breakers (see include/breakers.lua), what the host can carry or false (see
--          include/admission.lua); the completes follow in ARGV, see include/settle.lua.
-- returns: {0, standing, rejected (msgpack list of place, job, holder, token, answer), claimed
--          (msgpack list of ClaimedJob), 1 if nothing is claimed just now, when more may be had or
--          '', 1 if promote has something to do, what was left for the gate}; {1} for a session that is not
--          there; {2, last} for a seq that is too old; {3, last} for one that shows that the store forgot.
-- include: frame
-- include: unclosed
-- include: row
-- include: session
-- include: digest
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
-- include: room
-- include: claim

if not s or seq > s.seq + 1 then
    admit_older_data()
    if not s then return {1} end
    return {3, s.seq}
end
local key = P .. 'session/' .. session
if repeated then
    -- A dead session has none left to run.
    local parts = where == DEAD and {} or claimed_before(session, seq)
    local kept = redis.call('HMGET', key, 'rejected', 'next_at', 'unfinished', 'passed_over')
    return {0, where, kept[1], told_list(parts), 0, kept[2] or '', kept[3] and 1 or 0,
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
breakers.hear(given[11])
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
-- Only what a family left undone, or a flow, is said; both are rare, and so is the rest of the answer.
local unfinished = family_moved and is_unfinished()
if s.more then redis.call('HDEL', key, 'next_at', 'unfinished', 'passed_over') end
if next_at ~= '' then redis.call('HSET', key, 'next_at', next_at) end
if unfinished then redis.call('HSET', key, 'unfinished', 1) end
local passed_over = admission.passed_over
if passed_over > 0 then redis.call('HSET', key, 'passed_over', passed_over) end
return {0, where, answer, told_list(parts), waits and 1 or 0, next_at, unfinished and 1 or 0,
    passed_over}
