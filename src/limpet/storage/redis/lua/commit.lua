-- commit: all staged jobs of a flow come into being.
-- purpose: one small write; promote writes them out.
-- params:  flow, how many parts it has, the fence (job, session, token) or false, caps by queue or false.
-- returns: {0, 1 if it was not committed before}; {1} where a part is not there; {2, queue, how many wait in
--          it, how many are asked for} where one has no room, and nothing is left; {4} where the fence is
--          lost.
-- include: frame
-- include: row
-- include: session
-- include: keys
-- include: moves
-- include: fence
-- include: flows

local flow, chunks, fence = given[4], given[5], given[6]
-- While the store is closing, jobs that still run may ask for others.
if closed and (closed ~= 'closing' or not fence) then return {-2} end

-- include: write

if fence and not may_hand_in(fence) then
    refuse_to_take(fence)
    return {4}
end
if redis.call('ZSCORE', P .. 'committed', flow) then return {0, 0} end
if not is_whole(flow, chunks) then return {1} end
if given[7] then
    local asked, queues = {}, {}
    add_asked(asked, flow, 0, chunks)
    for queue in pairs(asked) do if given[7][queue] then queues[#queues + 1] = queue end end
    table.sort(queues)
    for _, queue in ipairs(queues) do
        local waiting = waiting_in(queue)
        if waiting + asked[queue] > given[7][queue] then
            drop_flow(flow)
            return {2, queue, waiting, asked[queue]}
        end
    end
end
commit_flow(flow, chunks)
return {0, 1}
