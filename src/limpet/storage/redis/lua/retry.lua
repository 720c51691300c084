-- retry: open a new round of a finished job.
-- purpose: succeeded, failed or cancelled to ready (or blocked, for its key), counters at zero.
-- params:  given[4] job
--          given[5] the round that the caller saw
-- returns: {0, round}
--          {1} the job is not there
--          {2, state, round} it is not finished, or in another round
--          {3, job} that job holds its unique
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: after
-- include: family

local r = find_row(given[4])
if not r then return {1} end
if r.round == given[5] + 1 then return {0, r.round} end
if r.state < SUCCEEDED or r.round ~= given[5] then return {2, STATES[r.state], r.round} end

-- include: reopen

local other = unique_taken(r)
if other then return {3, other.id} end

-- include: write

reopen(r, 'reopened')
finish()
return {0, r.round}
