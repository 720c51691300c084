"""How the gate of each store is broken on purpose."""

from functools import partial

from mutation import Mutation

_on_sqlite = partial(Mutation, store="sqlite")
_on_redis = partial(Mutation, store="redis")
_on_postgres = partial(Mutation, store="postgres")

MUTATIONS = (
    _on_sqlite(
        "gate.sql",
        "FROM limpet_permit WHERE server = :server",
        "FROM limpet_permit WHERE server = :server AND at > :since",
        "the gate forgets the permits that were given before",
    ),
    _on_sqlite(
        "gate.sql",
        "coalesce(sum(cpu) FILTER (WHERE at > :since), 0)",
        "0",
        "what was just admitted counts for nothing before it is measured",
    ),
    _on_sqlite(
        "gate.sql",
        "j.n = limpet_permit.n AND j.state = 'running' AND j.session = limpet_permit.session)",
        "j.n = limpet_permit.n)",
        "the permit of a job that has left running stays",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE s.id = limpet_permit.session AND s.state <> 'dead')",
        "WHERE s.id = limpet_permit.session)",
        "a caller that is dead keeps its permit",
    ),
    _on_sqlite(
        "hosts.sql",
        "SELECT server, body, at, until FROM limpet_host WHERE until > :now",
        "SELECT server, body, at, until FROM limpet_host WHERE true",
        "a host that says nothing more stays",
    ),
    _on_sqlite(
        "hosts.sql",
        "FROM limpet_host WHERE server = :server AND until > :now",
        "FROM limpet_host WHERE server = :server",
        "a host that says nothing more is found by its name",
    ),
    _on_redis(
        "include/permits.lua",
        "redis.call('ZADD', P .. 'permits', 0, text)",
        "if each[1] == each[2] then redis.call('ZADD', P .. 'permits', 0, text) end",
        "what runs with a permit does not count for those that come later",
    ),
    _on_redis(
        "include/outcome.lua",
        "    left_running[#left_running + 1] = r.id\n    if how.ready_at",
        "    if how.ready_at",
        "the permit of a job that is released, lost or failed stays",
    ),
    _on_redis(
        "include/outcome.lua",
        "if permits.take_back(left_running) then rings.ready = true end",
        "permits.take_back(left_running)",
        "nobody hears of a permit that was given back",
    ),
    _on_redis(
        "include/claim.lua",
        "                kept = common.odd\n                permitted",
        "                permitted",
        "the permit of a job that succeeds on the short way stays",
    ),
    _on_redis(
        "include/death.lua",
        "    if permits.take_back({s.id}) then freed_room = true end\n",
        "",
        "a caller that is dead keeps its permit",
    ),
    _on_redis(
        "include/gate.lua",
        "gates.count(taken, p.cpu, p.memory, p.heavy, p.at > now - room[7])",
        "gates.count(taken, p.cpu, p.memory, p.heavy, false)",
        "what was just admitted counts for nothing before it is measured",
    ),
    _on_redis(
        "take_permit.lua",
        "if standing(s) ~= LIVE then return {2} end\n",
        "",
        "a caller whose session is over is admitted",
    ),
    _on_redis(
        "hosts.lua",
        "if until_when and tonumber(until_when) > now then",
        "if until_when then",
        "a host that says nothing more is found by its name",
    ),
    _on_redis(
        "include/admission.lua",
        "gates.carries(room, weight) and 2 or 1",
        "2",
        "what a host can never carry seems to wait for it",
    ),
    _on_redis(
        "exchange.lua",
        "if passed_over > 0 then redis.call('HSET', key, 'passed_over', passed_over) end\n",
        "",
        "a repeat does not tell what was left for the gate",
    ),
    _on_redis(
        "exchange.lua",
        "redis.call('HDEL', key, 'next_at', 'unfinished', 'passed_over')",
        "redis.call('HDEL', key, 'next_at', 'unfinished')",
        "a repeat tells what an exchange before left for the gate",
    ),
    _on_postgres(
        "sql/hosts.sql",
        "WHERE server = %(server)s AND until > limpet.v1_time(%(now)s)",
        "WHERE server = %(server)s AND until > 0 * limpet.v1_time(%(now)s)",
        "a host that says nothing more is found by its name",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "CASE WHEN limpet.v1_carries(v_host, v_weight) THEN 2 ELSE 1 END",
        "2",
        "what a host can never carry seems to wait for it",
    ),
    _on_postgres(
        "functions/30_exchange.sql",
        ", passed_over = v_passed",
        "",
        "a repeat does not tell what was left for the gate",
    ),
    _on_postgres(
        "functions/30_exchange.sql",
        ", next_at = v_next",
        "",
        "a repeat does not tell when a rate lets more begin",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "FROM limpet.permit p WHERE p.server = p_room ->> 'server');",
        "FROM limpet.permit p WHERE p.server = p_room ->> 'server' AND p.at = p_now);",
        "the gate forgets the permits that others took before",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "'unseen_cpu', coalesce(sum(p.cpu) FILTER (WHERE p.at > v_since), 0),",
        "'unseen_cpu', 0,",
        "the gate does not count what could not be measured yet",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "    SELECT pg_try_advisory_xact_lock(hashtextextended('limpet.gate ' || p_server, 0))",
        "    SELECT true",
        "two claims at the gate of one host see the same room",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "PERFORM pg_advisory_xact_lock(hashtextextended('limpet.gate ' ||",
        "PERFORM length(concat('limpet.gate ' ||",
        "two callers at the gate of one host see the same room",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "    DELETE FROM limpet.permit p WHERE p.holder = ANY (p_jobs) AND p.session = p_session;",
        "    NULL;",
        "the gate keeps the permit of a job that has left running",
    ),
    _on_postgres(
        "functions/40_session.sql",
        "    DELETE FROM limpet.permit WHERE holder = p_session;",
        "    DELETE FROM limpet.permit WHERE false;",
        "the gate keeps the permit of a caller that is dead",
    ),
    _on_postgres(
        "functions/22_claim.sql",
        "        passed_over := 2;            -- nobody has looked",
        "        -- nobody has looked",
        "a claim that met somebody at the gate says that nothing waits",
    ),
)
