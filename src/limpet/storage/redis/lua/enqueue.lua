-- enqueue: write new jobs.
-- purpose: (nothing) to ready, scheduled or blocked; an id that is there stays as it is.
-- params:  number of jobs, their shapes, the shape of each or false where there is one, caps by
--          queue or false, all or none, the fence (job, session, token) or false, what some jobs
--          have beside (place, flags, msgpack); see include/arrive.lua. ARGV goes on with pairs of id
--          and blob.
-- returns: {0, letters, how many wait ahead of those over the cap, who holds the unique of
--          duplicates (job, state)}; {4} where the fence is lost; {5, job, parent} for a job whose
--          parent is not there.
-- why:     everything is checked before the first write, and that is refused when the server is at
--          its memory limit; nothing is written then.
-- include: frame
-- include: row
-- include: session
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: flows
-- include: arrive
-- include: fence

-- A cluster that moves the slot key by key lets a script fail at the first key that is not here; that
-- must be before the first write. This key is never here. (Other scripts take it away first.)
redis.call('EXISTS', P .. 'scratch')

local fence = given[9]
-- While the store is closing, jobs that still run may ask for others.
if closed and (closed ~= 'closing' or not fence) then return {-2} end

if fence and not may_hand_in(fence) then
    redis.call('DEL', P .. 'scratch')
    refuse_to_take(fence)
    return {4}
end
if given[4] == 0 then return {0, '', {}, {}} end

local letters, numbers, others, all_alike = take_in({number = given[4], shapes = given[5],
    kinds = given[6], caps = given[7], all_or_none = given[8], extras = given[10],
    drains = ruled and not fence, texts = ARGV, first = 2})
if not letters then return {5, numbers, others} end
finish()
return {0, all_alike and letters[1] or table.concat(letters), numbers, others}
