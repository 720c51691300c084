-- enqueue: write new jobs.
-- purpose: (nothing) to ready, scheduled or blocked; a job whose id is there stays as it is.
-- params:  given[4] number of jobs
--          given[5] their shapes
--          given[6] the shape of each job, or false where there is only one shape
--          given[7] caps by queue, or false
--          given[8] all or none
--          given[9] fence {job, session, token}, or false
--          given[10] extras of some jobs (place, flags, msgpack)
--          ARGV[2] and on: pairs of id and blob; see include/arrive.lua
-- returns: {0, letters, numbers, holders}
--          letters: what became of each job, see include/arrive.lua
--          numbers: how many jobs wait ahead of each that is over the cap
--          holders: who holds the unique of each duplicate {job, state}
--          {4} the lease of the fence is lost
--          {5, job, parent} the parent of a job is not there
-- why:     everything is checked before the first write. At the memory limit the server refuses that write,
--          and nothing is written.
-- include: frame
-- include: row
-- include: session
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family
-- include: flows
-- include: arrive
-- include: fence

-- While a cluster moves the slot key by key, a script fails at the first key that is not on this node. That must
-- happen before the first write, and this key is never there. (Other scripts delete it first.)
redis.call('EXISTS', P .. 'scratch')

local fence = given[9]
-- While the store is closing, jobs that still run may enqueue others.
if closed and (closed ~= 'closing' or not fence) then return {-2} end

if fence and not may_enqueue(fence) then
    redis.call('DEL', P .. 'scratch')
    refuse_enqueue(fence)
    return {4}
end
if given[4] == 0 then return {0, '', {}, {}} end

local letters, numbers, holders, all_alike = take_in({number = given[4], shapes = given[5],
    kinds = given[6], caps = given[7], all_or_none = given[8], extras = given[10],
    drains = ruled and not fence, texts = ARGV, first = 2})
-- Without letters the other two are the job and its parent.
if not letters then return {5, numbers, holders} end
finish()
return {0, all_alike and letters[1] or table.concat(letters), numbers, holders}
