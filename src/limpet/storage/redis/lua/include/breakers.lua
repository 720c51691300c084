-- breakers: what holds the work of some tasks back; the arithmetic is that of domain/breaker.py.
-- layout:  rules are JSON, as the app declared them. The state is a msgpack list: state, succeeded, failed,
--          window_at, opened_at, probe_at (false where there is none), tries {job, token}.
-- why:     the set `tripped` has the breakers that are not closed, so that a claim looks at no others.

local breakers = {MOST_TRIES = 100, given = {}}

breakers.STATES = {closed = true, open = true, probing = true}

-- The rules that the app declared; nil where they cannot be read: then the breaker counts as not there.
function breakers.rules_in(text)
    local rules = stored.json(text)
    if not rules or type(rules.tasks) ~= 'table' or type(rules.failure_rate) ~= 'number'
        or not stored.number(rules.least, 0) or not stored.number(rules.window, 0)
        or not stored.number(rules.probe_after, 0) then return nil end
    for _, task in ipairs(rules.tasks) do
        if type(task) ~= 'string' then return nil end
    end
    return rules
end

function breakers.find(name)
    local rules = redis.call('HGET', P .. 'breaker_rules', name)
    if not rules then return nil end
    rules = breakers.rules_in(rules)
    if not rules then return nil end
    local b = stored.packed(redis.call('HGET', P .. 'breaker_state', name))
    if not b or not breakers.STATES[b[1]] or type(b[7]) ~= 'table' then
        b = {'closed', 0, 0, 0, false, false, {}}
    end
    return {name = name, rules = rules, state = b[1], succeeded = stored.number(b[2], 0) or 0,
        failed = stored.number(b[3], 0) or 0, window_at = stored.number(b[4], 0) or 0, opened_at = b[5],
        probe_at = stored.number(b[6], 0) or false, tries = b[7]}
end

function breakers.keep(b)
    redis.call('HSET', P .. 'breaker_state', b.name, cmsgpack.pack({b.state, b.succeeded, b.failed,
        b.window_at, b.opened_at, b.probe_at, b.tries}))
    redis.call(b.state == 'closed' and 'SREM' or 'SADD', P .. 'tripped', b.name)
end

function breakers.shut(b)
    b.state, b.succeeded, b.failed, b.window_at, b.opened_at, b.probe_at = 'closed', 0, 0, now, false,
        false
    b.tries = {}
    rings.ready = true
end

-- For a breaker that is not closed only tries count; `attempts`: job, token, whether it succeeded.
function breakers.observe_tries(b, attempts)
    local ended, left, failed = {}, {}, false
    for _, attempt in ipairs(attempts) do
        ended[attempt[1] .. '/' .. whole(attempt[2])] = attempt[3] and 1 or 0
    end
    for _, try in ipairs(b.tries) do
        local how = ended[try[1] .. '/' .. whole(try[2])]
        if how == 1 then
            breakers.shut(b)
            return
        elseif how == 0 then
            failed = true
        else
            left[#left + 1] = try
        end
    end
    if failed then
        b.state, b.succeeded, b.failed, b.window_at, b.tries = 'open', 0, 0, now, left
        b.probe_at = now + b.rules.probe_after
    end
end

function breakers.observe(b, succeeded, failed, attempts)
    if b.state ~= 'closed' then
        breakers.observe_tries(b, cmsgpack.unpack(attempts))
        return
    end
    local fresh = now >= b.window_at + b.rules.window
    succeeded = succeeded + (fresh and 0 or b.succeeded)
    failed = failed + (fresh and 0 or b.failed)
    local over = succeeded + failed
    if over >= b.rules.least and failed >= b.rules.failure_rate * over then
        b.state, b.succeeded, b.failed, b.window_at = 'open', 0, 0, now
        b.opened_at, b.probe_at = now, now + b.rules.probe_after
    else
        b.succeeded, b.failed = succeeded, failed
        if fresh then b.window_at = now end
    end
end

-- What holders saw, a list for each breaker: name, succeeded, failed, attempts (msgpack, seldom needed). Nothing is
-- kept of a breaker that nobody declared.
function breakers.record_observed(observed)
    for _, seen in ipairs(observed) do
        local b = breakers.find(seen[1])
        if b then
            breakers.observe(b, seen[2], seen[3], seen[4])
            breakers.keep(b)
        end
    end
    if #observed > 0 then note_ruled() end
end

-- The breakers that are not closed, by task.
function breakers.by_task()
    local of_task = {}
    for _, name in ipairs(redis.call('SMEMBERS', P .. 'tripped')) do
        local b = breakers.find(name)
        for _, task in ipairs(b and b.rules.tasks or {}) do
            of_task[task] = of_task[task] or {}
            table.insert(of_task[task], b)
        end
    end
    return of_task
end

-- Try one job; the next may be tried `probe_after` from now.
function breakers.probe(b, id)
    b.state, b.probe_at = 'probing', now + b.rules.probe_after
    table.insert(breakers.given, {b, id})
end

-- Keep which attempts are tried, once their jobs are taken and have their tokens.
function breakers.keep_tries()
    for _, try in ipairs(breakers.given) do
        local b, row = try[1], redis.call('HGET', P .. 'row', try[2])
        if row then table.insert(b.tries, {try[2], (struct.unpack(@row.token.format, row, @row.token))}) end
        if #b.tries > breakers.MOST_TRIES then table.remove(b.tries, 1) end
        breakers.keep(b)
    end
end
