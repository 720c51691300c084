-- commit: all staged jobs of a flow come into being.
-- purpose: one small write; promote writes the jobs out.
-- params:  given[4] flow
--          given[5] how many parts it has
--          given[6] fence {job, session, token}, or false
--          given[7] caps by queue, or false
-- returns: {0, 1 if it was not committed before}
--          {1} a part is missing
--          {2, queue, how many jobs wait in it, how many jobs of the flow are for it} the queue is full; the
--              flow is removed
--          {4} the lease of the fence is lost
-- include: frame
-- include: row
-- include: session
-- include: rates
-- include: keys
-- include: moves
-- include: fence
-- include: flows

local flow, chunks, fence = given[4], given[5], given[6]
-- While the store is closing, jobs that still run may enqueue others.
if closed and (closed ~= 'closing' or not fence) then return {-2} end

-- include: write

if fence and not may_enqueue(fence) then
    refuse_enqueue(fence)
    return {4}
end
if redis.call('ZSCORE', P .. 'committed', flow) then return {0, 0} end
if not is_whole(flow, chunks) then return {1} end
if given[7] then
    local queued, queues = {}, {}
    add_queued(queued, flow, 0, chunks)
    for queue in pairs(queued) do if given[7][queue] then queues[#queues + 1] = queue end end
    table.sort(queues)
    for _, queue in ipairs(queues) do
        local waiting = waiting_in(queue)
        if waiting + queued[queue] > given[7][queue] then
            drop_flow(flow)
            return {2, queue, waiting, queued[queue]}
        end
    end
end
commit_flow(flow, chunks)
return {0, 1}
