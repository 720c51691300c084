-- row: a job's row, everything about it that changes; rows.py reads the same layout.
-- layout:  1 state, 2 begun, 3-10 token, 11-14 seq of the exchange that claimed it, 15 pool of that
--          claim, 16-23 claimed_at, 24-31 finished_at, 32 suspect, 33 last_run, 34 flags (below),
--          35-38 round, 39-42 failures, 43-46 orphans, 47-50 strikes, 51-58 expires_at,
--          59-66 deadline_at, 67-74 cancel_requested_at, 75-78 priority, 79-86 ready_at,
--          87-94 created_at, 95-100 number (its place among all that were enqueued),
--          101 length of the session's id, then that id, then the line (queue, a slash, task). A
--          time that is not set is -1.
-- held:    what a session holds is a hash of its own: id to 1 kind, 2 begun, 3-10 token, then the line.
--          The kind is 0 for a plain job; 1 for one that may have an error or a request to cancel it,
--          is of a flow, or has a permit; 2 for one that is plain but for its key, which follows after
--          a zero. A field without a name, of 65 bytes, is always there.
-- why:     the hot path changes a few bytes of a row and copies the rest; a success only leaves the
--          hash of what is held, whose values are few and short, and the row still says `running`:
--          `present` tells what it means. A hash of short values only is a list to Redis, slow to
--          search: hence the long one.

local SCHEDULED, READY, BLOCKED, RUNNING = 1, 2, 3, 4
local QUARANTINED, SUCCEEDED, FAILED, CANCELLED = 5, 6, 7, 8
local STATES = {'scheduled', 'ready', 'blocked', 'running', 'quarantined', 'succeeded', 'failed',
    'cancelled'}
local NONE = -1
local NONE_8 = struct.pack('>d', NONE)
-- Bytes 32 to 74 of a job that has been through nothing and has no limits: round 1.
local PLAIN = '\0\0\0\0\0\0\1' .. string.rep('\0', 12) .. NONE_8 .. NONE_8 .. NONE_8
local ROW = '>BBI8I4BddBBBI4I4I4I4dddi4ddI6'
local MINUTE = 60000000
-- Flags of a row: it has a hook; it is somebody's child or has children; it has a key; it has a turn of
-- it; it says something of its key; its parent was gone before it ended, so that it counts for nobody; it
-- has a unique.
local HOOK, FAMILY, KEYED, TURN, RULED, LOOSE, UNIQUE = 1, 2, 4, 8, 16, 32, 64

local function flagged(flags, flag)
    return bit.band(flags, flag) ~= 0
end

local function split(line)
    local slash = string.find(line, '/', 1, true)
    return string.sub(line, 1, slash - 1), string.sub(line, slash + 1)
end

local function read_row(id, text)
    local r = {id = id}
    r.state, r.begun, r.token, r.seq, r.pool, r.claimed_at, r.finished_at, r.suspect, r.last_run,
        r.flags, r.round, r.failures, r.orphans, r.strikes, r.expires_at, r.deadline_at,
        r.requested_at, r.priority, r.ready_at, r.created_at, r.number = struct.unpack(ROW, text)
    local length = string.byte(text, 101)
    r.session = string.sub(text, 102, 101 + length)
    r.line = string.sub(text, 102 + length)
    r.queue, r.task = split(r.line)
    return r
end

-- A row as it is meant: one that says `running` has succeeded if nobody holds the job.
local function present(id, text)
    if string.byte(text, 1) ~= RUNNING then return text end
    local session = string.sub(text, 102, 101 + string.byte(text, 101))
    local held = redis.call('HGET', P .. 'held/' .. session, id)
    if held then return '\4' .. string.sub(held, 2, 2) .. string.sub(text, 3) end
    local finished_at = redis.call('ZSCORE', P .. 'finished/succeeded', id)
    if not finished_at then return text end
    local flags = string.byte(text, 34)
    if flagged(flags, TURN) then flags = flags - TURN end
    return '\6' .. string.sub(text, 2, 23) .. struct.pack('>d', tonumber(finished_at))
        .. string.sub(text, 32, 33) .. string.char(flags) .. string.sub(text, 35)
end

local function find_row(id)
    local text = redis.call('HGET', P .. 'row', id)
    return text and read_row(id, present(id, text))
end

local function row_text(r)
    return struct.pack(ROW, r.state, r.begun, r.token, r.seq, r.pool, r.claimed_at, r.finished_at,
        r.suspect, r.last_run, r.flags, r.round, r.failures, r.orphans, r.strikes, r.expires_at,
        r.deadline_at, r.requested_at, r.priority, r.ready_at, r.created_at, r.number)
        .. string.char(#r.session) .. r.session .. r.line
end

local function sort_key(r)
    return r.ready_at - r.priority * MINUTE
end

local function comes_before(a, b)
    if sort_key(a) ~= sort_key(b) then return sort_key(a) < sort_key(b) end
    return a.number < b.number
end

-- A job in its line: of equals the one that came first is first.
local function place_of(r)
    return struct.pack('>I6', r.number) .. r.id
end

-- While it waits: when it may no longer start, or NONE.
local function lapses_at(r)
    if r.expires_at == NONE then return r.deadline_at end
    if r.deadline_at == NONE then return r.expires_at end
    return math.min(r.expires_at, r.deadline_at)
end

-- The ids of what a session holds.
local function held_by(session)
    local ids = {}
    for _, id in ipairs(redis.call('HKEYS', P .. 'held/' .. session)) do
        if id ~= '' then ids[#ids + 1] = id end
    end
    return ids
end

local function holds(r, session, token)
    return r and r.state == RUNNING and r.session == session and r.token == token
end
