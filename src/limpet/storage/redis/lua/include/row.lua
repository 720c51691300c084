-- row:     everything about a job that changes. layout.py describes its fields, and those of what a session
--          holds; `@row.token` is the number of the first byte of its token, see there.
-- held:    what a session holds is a hash of its own: id to kind, begun, token and line. A field without a
--          name, of 65 bytes, is always there.
-- why:     the hot path changes a few bytes of a row and copies the rest. A success only leaves the hash of
--          what is held, whose values are few and short, and its row stays `running`: `present` tells
--          what it means. Redis keeps a hash of short values as a list, slow to search: hence the long one.

local SCHEDULED, READY, BLOCKED, RUNNING = @state.scheduled, @state.ready, @state.blocked, @state.running
local QUARANTINED, SUCCEEDED = @state.quarantined, @state.succeeded
local FAILED, CANCELLED = @state.failed, @state.cancelled
local STATES = {'scheduled', 'ready', 'blocked', 'running', 'quarantined', 'succeeded', 'failed',
    'cancelled'}
local NONE = -1
-- The fields from `suspect` to `requested_at` of a plain job: nothing happened to it yet, it has no limits: round 1.
local PLAIN = struct.pack(@row.suspect:requested_at, 0, 0, 0, 1, 0, 0, 0, NONE, NONE, NONE)
local ROW = @row.state:number
local MINUTE_US = 60000000
local HOOK, FAMILY, KEYED, TURN = @flag.hook, @flag.family, @flag.keyed, @flag.turn
local RULED, LOOSE, UNIQUE = @flag.ruled, @flag.loose, @flag.unique

local function flagged(flags, flag)
    return bit.band(flags, flag) ~= 0
end

local function split(line)
    local slash = string.find(line, '/', 1, true)
    return string.sub(line, 1, slash - 1), string.sub(line, slash + 1)
end

-- Where the line of a row begins: after the id of its session.
local function line_at(text)
    return @row.session + string.byte(text, @row.session_length)
end

local function read_row(id, text)
    local r = {id = id}
    r.state, r.begun, r.token, r.seq, r.pool, r.claimed_at, r.finished_at, r.suspect, r.last_run,
        r.flags, r.round, r.failures, r.orphans, r.strikes, r.expires_at, r.deadline_at,
        r.requested_at, r.priority, r.ready_at, r.created_at, r.number = struct.unpack(ROW, text)
    local line = line_at(text)
    r.session = string.sub(text, @row.session, line - 1)
    r.line = string.sub(text, line)
    r.queue, r.task = split(r.line)
    return r
end

-- A row with its true state: a job whose row is `running` has succeeded if no session holds it.
local function present(id, text)
    if string.byte(text, @row.state) ~= RUNNING then return text end
    local session = string.sub(text, @row.session, line_at(text) - 1)
    local held = redis.call('HGET', P .. 'held/' .. session, id)
    if held then
        return @state.running.byte .. string.sub(held, @held.begun, @held.begun.last)
            .. string.sub(text, @row.token)
    end
    local finished_at = redis.call('ZSCORE', P .. 'finished/succeeded', id)
    if not finished_at then return text end
    local flags = string.byte(text, @row.flags)
    if flagged(flags, TURN) then flags = flags - TURN end
    return @state.succeeded.byte .. string.sub(text, @row.begun, @row.claimed_at.last)
        .. struct.pack(@row.finished_at.format, tonumber(finished_at))
        .. string.sub(text, @row.suspect, @row.last_run.last) .. string.char(flags)
        .. string.sub(text, @row.round)
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
    return r.ready_at - r.priority * MINUTE_US
end

local function comes_before(a, b)
    if sort_key(a) ~= sort_key(b) then return sort_key(a) < sort_key(b) end
    return a.number < b.number
end

-- A job as a member of its line: of jobs with the same score the one that came first is first.
local function place_of(r)
    return struct.pack(@place.number.format, r.number) .. r.id
end

-- When a waiting job may no longer start, or NONE.
local function lapses_at(r)
    if r.expires_at == NONE then return r.deadline_at end
    if r.deadline_at == NONE then return r.expires_at end
    return math.min(r.expires_at, r.deadline_at)
end

-- The ids of the jobs that a session holds.
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
