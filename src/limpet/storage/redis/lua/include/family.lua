-- family: parents and children, in the step in which one of them ends. Needs after.lua.
-- purpose: a child that ends reduces the count for which its parent waits, or makes the parent fail; the
--          descendants of a blocked parent that failed or was cancelled are cancelled, some at once, the
--          others by promote.
-- why:     `pending` is there only while a job is blocked by its children. `gone` has the parents whose
--          descendants are still to be cancelled, with the number of the last child looked at. `ahead`
--          keeps the ends of children whose parent is still to be written out of the same flow.

-- Lua allows 200 local names in a script: only these are seen outside.
local count_down, notify_parent, apply_ahead, stop_child, stop_kin
do

local function gone_cause(parent)
    return '{"kind":"ParentGone","job":' .. cjson.encode(parent) .. '}'
end

-- Blocked to failed, because a child failed without which the parent must not run.
local function abandon(p, child, state)
    leave(p)
    p.state, p.finished_at = FAILED, now
    enter(p)
    local cause = '{"kind":"ChildFailed","job":' .. cjson.encode(child) .. ',"state":"' .. state .. '"}'
    redis.call('HSET', P .. 'error', p.id, cause)
    record(p, 'failed', nil, nil, cause)
    count_moves(p.queue, 'abandon', BLOCKED, FAILED, 1)
end

-- The parent waits for `count` children fewer; after the last one it becomes ready.
function count_down(p, count)
    if redis.call('HINCRBY', P .. 'pending', p.id, -count) > 0 then return end
    redis.call('HDEL', P .. 'pending', p.id)
    leave(p)
    become_ready(p, 'unblock', BLOCKED)
end

-- A parent that waits for children, or nil.
local function waiting_parent(id)
    if redis.call('HEXISTS', P .. 'pending', id) == 0 then return nil end
    local p = find_row(id)
    -- Another child may have made the parent fail in the same step.
    return p.state == BLOCKED and p or nil
end

-- Keep the end of a child whose parent is still to be written out.
local function keep_ahead(parent, failed, state)
    if redis.call('EXISTS', P .. 'flows') == 0 then return end
    local kept = redis.call('HGET', P .. 'ahead', parent)
    local ends = kept and cmsgpack.unpack(kept) or {0, false, false}
    ends[1] = ends[1] + 1
    if failed and not ends[2] then ends[2], ends[3] = failed, state end
    redis.call('HSET', P .. 'ahead', parent, cmsgpack.pack(ends))
end

-- A child has reached a final state; `child` is nil for one that was not written at all.
function notify_parent(parent, child)
    local failed = child and child.state ~= SUCCEEDED
        and (extra_of(child).rules.child_failure or 'fail') == 'fail'
    local p = waiting_parent(parent)
    if not p then
        if redis.call('HEXISTS', P .. 'row', parent) == 0 then
            keep_ahead(parent, failed and child.id, child and STATES[child.state])
        end
    elseif failed then
        abandon(p, child.id, STATES[child.state])
    else
        count_down(p, 1)
    end
end

-- Apply to a new parent the ends of children that came before it.
function apply_ahead(id)
    local kept = redis.call('HGET', P .. 'ahead', id)
    if not kept then return end
    redis.call('HDEL', P .. 'ahead', id)
    local ends, p = cmsgpack.unpack(kept), waiting_parent(id)
    if p and ends[2] then
        abandon(p, ends[2], ends[3])
    elseif p then
        count_down(p, ends[1])
    end
end

local function notify_parents()
    while #ended > 0 do
        local list = ended
        ended = {}
        for _, r in ipairs(list) do
            if r.state ~= SUCCEEDED and redis.call('HDEL', P .. 'pending', r.id) == 1 then
                redis.call('ZADD', P .. 'gone', 0, r.id)
            end
            local parent = extra_of(r).parent
            if parent and r.round == 1 and not flagged(r.flags, LOOSE) then notify_parent(parent, r) end
        end
    end
end

function stop_child(parent, id)
    local r = find_row(id)
    if not r or r.state >= SUCCEEDED then return end
    if not flagged(r.flags, LOOSE) then r.flags = r.flags + LOOSE end
    if r.state ~= RUNNING then
        cancel_waiting(r, gone_cause(parent))
    elseif r.requested_at == NONE then
        request_cancel(r, gone_cause(parent))
    end
end

-- Cancel descendants of parents that are gone, as many as one step may look at.
function stop_kin()
    while kin_left > 0 do
        local first = redis.call('ZRANGE', P .. 'gone', 0, 0, 'WITHSCORES')
        local parent = first[1]
        if not parent then return end
        local most = kin_left
        local found = redis.call('ZRANGEBYSCORE', P .. 'children/' .. parent, '(' .. first[2], '+inf',
            'WITHSCORES', 'LIMIT', 0, most)
        for at = 1, #found, 2 do stop_child(parent, found[at]) end
        kin_left = kin_left - #found / 2
        if #found / 2 < most then
            redis.call('ZREM', P .. 'gone', parent)
        else
            redis.call('ZADD', P .. 'gone', found[#found], parent)
        end
        notify_parents()
    end
end

local function settle_family()
    if #ended == 0 then return end
    family_moved = true
    notify_parents()
    stop_kin()
end

table.insert(closers, 1, settle_family)

end
