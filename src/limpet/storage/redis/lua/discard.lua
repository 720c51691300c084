-- discard: remove the jobs that have arrived in a move, a thousand at a time.
-- purpose: any state to (nothing), with everything that is kept of the job.
-- params:  given[4] the move
-- returns: {0, 1 if there is more}
--          {1} this store is not being emptied for this move
-- include: frame
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: at_stage

if not is_at('emptying') then return {1} end

-- include: write
-- include: bounds
-- include: moved_settings
-- include: forget

local ids = redis.call('ZRANGE', P .. 'all', 0, 999)
for _, id in ipairs(ids) do
    local r = find_row(id)
    leave(r)
    gauge(r.queue, r.state, -1)
    if flagged(r.flags, TURN) then give_back(extra_of(r).key) end
    forget_beside(r)
end
if #ids > 0 then forget(ids) end
finish()
if #ids == 1000 then return {0, 1} end
for _, key in ipairs({'total', 'paused', 'latest', 'turns', 'key_due'}) do redis.call('DEL', P .. key) end
clear_settings()
note_ruled()
return {0, 0}
