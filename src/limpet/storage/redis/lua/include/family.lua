-- family: parents and children, in the step in which one of them ends. Needs after.lua.
-- purpose: a child that ends takes one away from what its parent waits for, or makes it fail; the
--          descendants of a blocked parent that failed or was cancelled are cancelled, some at once,
--          the others by promote.
-- why:     `pending` is there only while a job is blocked by its children. `gone` has the parents whose
--          descendants are still to be cancelled, with the number of the last child looked at. `ahead`
--          keeps the word of children that ended before their parent was written out of the same flow.

-- A script has room for 200 names of its own: only these are seen outside.
local count_down, tell_parent, hear_ahead, stop_child, stop_kin
do

local function gone_cause(parent)
    return '{"kind":"ParentGone","job":' .. cjson.encode(parent) .. '}'
end

-- Blocked to failed, because of a child without which the parent is not to run.
local function abandon(p, child, state)
    leave(p)
    p.state, p.finished_at = FAILED, now
    enter(p)
    local cause = '{"kind":"ChildFailed","job":' .. cjson.encode(child) .. ',"state":"' .. state .. '"}'
    redis.call('HSET', P .. 'error', p.id, cause)
    record(p, 'failed', nil, nil, cause)
    count_moves(p.queue, 'abandon', BLOCKED, FAILED, 1)
end

-- So many children fewer to wait for; the last one lets the parent ask to become ready.
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
    -- Another child may have made it fail in the same step.
    return p.state == BLOCKED and p or nil
end

-- Keep what a child has to say for a parent that is to come.
local function say_ahead(parent, failed, state)
    if redis.call('EXISTS', P .. 'flows') == 0 then return end
    local kept = redis.call('HGET', P .. 'ahead', parent)
    local word = kept and cmsgpack.unpack(kept) or {0, false, false}
    word[1] = word[1] + 1
    if failed and not word[2] then word[2], word[3] = failed, state end
    redis.call('HSET', P .. 'ahead', parent, cmsgpack.pack(word))
end

-- A child has reached a final state; `child` is nil for one that was not written at all.
function tell_parent(parent, child)
    local failed = child and child.state ~= SUCCEEDED
        and (extra_of(child).rules.child_failure or 'fail') == 'fail'
    local p = waiting_parent(parent)
    if not p then
        if redis.call('HEXISTS', P .. 'row', parent) == 0 then
            say_ahead(parent, failed and child.id, child and STATES[child.state])
        end
    elseif failed then
        abandon(p, child.id, STATES[child.state])
    else
        count_down(p, 1)
    end
end

-- What was said to a parent before it came.
function hear_ahead(id)
    local kept = redis.call('HGET', P .. 'ahead', id)
    if not kept then return end
    redis.call('HDEL', P .. 'ahead', id)
    local word, p = cmsgpack.unpack(kept), waiting_parent(id)
    if p and word[2] then
        abandon(p, word[2], word[3])
    elseif p then
        count_down(p, word[1])
    end
end

local function hear_of_ended()
    while #ended > 0 do
        local list = ended
        ended = {}
        for _, r in ipairs(list) do
            if r.state ~= SUCCEEDED and redis.call('HDEL', P .. 'pending', r.id) == 1 then
                redis.call('ZADD', P .. 'gone', 0, r.id)
            end
            local parent = extra_of(r).parent
            if parent and r.round == 1 and not flagged(r.flags, LOOSE) then tell_parent(parent, r) end
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
        local asked = kin_left
        local found = redis.call('ZRANGEBYSCORE', P .. 'children/' .. parent, '(' .. first[2], '+inf',
            'WITHSCORES', 'LIMIT', 0, asked)
        for at = 1, #found, 2 do stop_child(parent, found[at]) end
        kin_left = kin_left - #found / 2
        if #found / 2 < asked then
            redis.call('ZREM', P .. 'gone', parent)
        else
            redis.call('ZADD', P .. 'gone', found[#found], parent)
        end
        hear_of_ended()
    end
end

local function settle_family()
    if #ended == 0 then return end
    family_moved = true
    hear_of_ended()
    stop_kin()
end

table.insert(closers, 1, settle_family)

end
