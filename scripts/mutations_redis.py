"""How the Redis store's scripts are broken on purpose."""

from functools import partial

from mutation import Mutation

_broken = partial(Mutation, store="redis")

MUTATIONS = (
    _broken(
        "include/row.lua",
        "return r and r.state == RUNNING and r.session == session and r.token == token",
        "return r and r.state == RUNNING and r.session == session",
        "the fence lets every token pass",
    ),
    _broken(
        "include/row.lua",
        "return r and r.state == RUNNING and r.session == session and r.token == token",
        "return r and r.state == RUNNING and r.token == token",
        "the fence lets every session pass",
    ),
    _broken(
        "include/row.lua",
        "return r and r.state == RUNNING and r.session == session and r.token == token",
        "return r and r.session == session and r.token == token",
        "the fence lets a holder settle twice",
    ),
    _broken(
        "include/row.lua",
        "return r.ready_at - r.priority * MINUTE",
        "return r.ready_at + r.priority * MINUTE",
        "a low priority comes first",
    ),
    _broken(
        "include/settle.lua",
        "local r = alive and holder == session and find_row(id)",
        "local r = holder == session and find_row(id)",
        "a dead session can settle what is no plain success",
    ),
    _broken(
        "include/fence.lua",
        "if mine and event[7] == tried then return 'already' end",
        "if mine then return 'already' end",
        "a late holder is told that it settled",
    ),
    _broken(
        "include/fence.lua",
        "    if not complained then",
        "    if true then",
        "a late holder is told of again and again",
    ),
    _broken(
        "include/claim.lua",
        "token = (token > base and token or base) + 1",
        "token = math.max(token, base, 1)",
        "a claim gets no new token",
    ),
    _broken(
        "include/claim.lua",
        "fit = end_at == NONE or end_at > now",
        "fit = true",
        "an expired job is claimed",
    ),
    _broken(
        "include/claim.lua",
        "if limit > 0 and not paused[queue] then",
        "if limit > 0 then",
        "a paused queue is claimed from",
    ),
    _broken(
        "include/claim.lua",
        "if r.seq == seq then found",
        "if r.seq <= seq then found",
        "a repeated exchange is given all that the session holds",
    ),
    _broken(
        "include/claim.lua",
        "            if first.alone then suspects = suspects - 1 end\n",
        "",
        "more suspects are claimed than can run alone",
    ),
    _broken(
        "include/claim.lua",
        "slots[queue] and slots[queue] - (per_queue[queue] or 0)",
        "slots[queue] and slots[queue]",
        "pools do not share the slots of a queue",
    ),
    _broken(
        "include/claim.lua",
        "if mine ~= theirs then return mine < theirs end",
        "if mine ~= theirs then return mine > theirs end",
        "lines are served from the youngest",
    ),
    _broken(
        "include/claim.lua",
        "            redis.call('ZREMRANGEBYRANK', source.key, 0, count - 1)",
        "            redis.call('ZREMRANGEBYRANK', source.key, 0, count)",
        "a claim drops a job that it does not take",
    ),
    _broken(
        "include/digest.lua",
        "    held_tokens = held_tokens + token % 1048576\n",
        "",
        "the digest knows no tokens",
    ),
    _broken(
        "include/session.lua",
        "if s.moment <= now_lease then return PAST end",
        "if s.moment < now_lease then return PAST end",
        "a session claims at its moment",
    ),
    _broken(
        "include/death.lua",
        "        redis.call('HINCRBY', P .. 'known', task, -1)\n",
        "",
        "a dead session counts as one that knows a task",
    ),
    _broken(
        "include/outcome.lua",
        "if r.begun == 1 or how.started then r.expires_at = NONE end",
        "if how.started then r.expires_at = NONE end",
        "a job that has begun can still expire",
    ),
    _broken(
        "include/outcome.lua",
        "if capped and (r.hook == 0 or r.last_run == 1) then",
        "if capped and r.hook == 0 then",
        "a death in the last run is not the end",
    ),
    _broken(
        "include/outcome.lua",
        "if move == 'retry' then r.failures = r.failures + 1 end",
        "r.failures = r.failures + 1",
        "a snooze spends a failure",
    ),
    _broken(
        "include/outcome.lua",
        "    if not begun or not charged then",
        "    if not begun then",
        "an outage is charged to the job",
    ),
    _broken(
        "include/outcome.lua",
        "if not how.accepted then r.session = '' end",
        "if false then r.session = '' end",
        "a dead holder keeps its name on the job",
    ),
    _broken(
        "include/moves.lua",
        "redis.call('SREM', P .. 'cancels/' .. r.session, r.id)",
        "r.pool = 0",
        "a session is told to stop a job that it no longer has",
    ),
    _broken(
        "enqueue.lua",
        "{'/ready', '/scheduled', '/blocked'}",
        "{'/ready'}",
        "the cap does not count what waits for its time",
    ),
    _broken(
        "enqueue.lua",
        "(where ~= LIVE and where ~= DRAINING)",
        "where == DEAD",
        "a session past its moment enqueues",
    ),
    _broken(
        "exchange.lua",
        "if seq > s.seq + 1 then return {3, s.seq} end",
        "",
        "a store that forgot an exchange says nothing",
    ),
    _broken(
        "exchange.lua",
        "if given[10] and where == LIVE and",
        "if given[10] and where ~= DEAD and",
        "a session that drains or is past its moment claims",
    ),
    _broken(
        "renew.lua",
        "    redis.call('ZADD', P .. 'moments', whole(moment), id)\n",
        "",
        "a renewal does not hold the lease any longer",
    ),
    _broken(
        "expire.lua",
        "'-inf', whole(asked))",
        "'-inf', '(' .. whole(asked))",
        "a session outlives its moment",
    ),
    _broken(
        "recover.lua",
        "if not s or s.state ~= DEAD then",
        "if not s then",
        "the jobs of a living session are recovered",
    ),
    _broken(
        "prune.lua",
        "if #ids < left and r.created_at < created_before then",
        "if #ids < left then",
        "a job is pruned within the window in which a repeat is safe",
    ),
    _broken(
        "cancel.lua",
        "    redis.call('SADD', P .. 'cancels/' .. r.session, r.id)\n",
        "",
        "the holder is not told of a cancellation",
    ),
    _broken(
        "retry.lua",
        "r.failures, r.orphans, r.strikes = 0, 0, 0",
        "r.failures, r.orphans = 0, 0",
        "a new round starts with old strikes",
    ),
    _broken(
        "jobs.lua",
        "if r and (not after or r.number < after) then",
        "if r and (not after or r.number <= after) then",
        "a page repeats the last job of the page before",
    ),
    _broken(
        "include/settle.lua",
        "if said and said[1] == token then",
        "if said then",
        "a batch of successes lets every token pass",
    ),
    _broken(
        "include/settle.lua",
        "redis.call('HDEL', P .. 'held/' .. session, unpack(settled))",
        "settled = {}",
        "what has succeeded is still held",
    ),
    _broken(
        "include/settle.lua",
        "            let_go(id, said[3])\n",
        "",
        "the digest does not follow successes",
    ),
    _broken(
        "include/claim.lua",
        "then kept = common.odd end",
        "then kept = common.held end",
        "a job that succeeded keeps the error of an earlier attempt",
    ),
    _broken(
        "include/claim.lua",
        "limited[#limited + 1] = id end",
        "end",
        "a running job can lapse",
    ),
    _broken(
        "cancel.lua",
        "redis.call('HSET', key, r.id, '\\1'",
        "redis.call('HSET', key, r.id, '\\0'",
        "a session is told to stop a job that has succeeded",
    ),
    _broken(
        "include/row.lua",
        "    if not finished_at then return text end\n",
        "    if finished_at then return text end\n",
        "a job that has succeeded seems to run",
    ),
)
