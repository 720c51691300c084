-- schedule: what is kept of a schedule, and when it ticks.
-- layout:  a msgpack list in the hash `schedules`: timing, definition, next_at, paused, last_at,
--          last_job, fired, passed, changed_at; a part that is not set is false. Schedules that are not
--          paused are in the sorted set `ticks` by next_at.

local function find_schedule(id)
    local text = redis.call('HGET', P .. 'schedules', id)
    if not text then return nil end
    local kept = stored.packed(text) or {}
    -- A schedule that cannot be read counts as not there: it can be put anew.
    if type(kept[1]) ~= 'string' or type(kept[2]) ~= 'string' or type(kept[4]) ~= 'boolean' then
        return nil
    end
    for _, part in ipairs({3, 7, 8, 9}) do
        if type(kept[part]) ~= 'number' then return nil end
    end
    local s = {id = id}
    s.timing, s.definition, s.next_at, s.paused, s.last_at, s.last_job, s.fired, s.passed,
        s.changed_at = unpack(kept)
    return s
end

local function keep_schedule(s)
    redis.call('HSET', P .. 'schedules', s.id, cmsgpack.pack({s.timing, s.definition, s.next_at,
        s.paused, s.last_at, s.last_job, s.fired, s.passed, s.changed_at}))
    if s.paused then
        redis.call('ZREM', P .. 'ticks', s.id)
    else
        redis.call('ZADD', P .. 'ticks', whole(s.next_at), s.id)
    end
end
