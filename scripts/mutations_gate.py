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
        "WHERE r.server = :server AND r.at > :since",
        "WHERE r.server = :server",
        "a reservation that nobody confirms holds a host for ever",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.n = :n AND r.server <> :server AND r.at > :since",
        "WHERE false",
        "a job reserves every host",
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
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since",
        "WHERE r.server = :server AND r.n = 0",
        "a caller that does not ask again keeps its host reserved for ever",
    ),
    _on_sqlite(
        "gate.sql",
        "ON s.id = r.session AND s.state <> 'dead'\nWHERE r.server = :server",
        "ON s.id = r.session\nWHERE r.server = :server",
        "a host stays reserved for a caller that is dead",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since\n"
        "  AND NOT EXISTS (SELECT 1 FROM limpet_permit p WHERE p.holder = r.session)",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since",
        "a host stays reserved for a caller that has its permit",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.session = :session AND r.n = 0 AND r.server <> :server AND r.at > :since",
        "WHERE false",
        "a caller reserves every host",
    ),
    _on_sqlite(
        "gate.sql",
        "SELECT registered_at FROM limpet_session WHERE id = :session",
        "SELECT 0 FROM limpet_session WHERE id = :session",
        "a caller reserves its host as soon as it asks",
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
        "include/admission.lua",
        "if (not reserved or reserved == id) and gates.fits",
        "if gates.fits",
        "a host that is reserved for a job admits others",
    ),
    _on_redis(
        "include/gate.lua",
        "if other ~= server and gates.reserved_for(reservation) == holder then return true end",
        "",
        "who waits reserves every host",
    ),
    _on_redis(
        "include/gate.lua",
        "string.byte(row, 1) == READY and string.sub(row, 3, 10) == reservation.token",
        "true",
        "a host stays reserved for a job that is not ready any more",
    ),
    _on_redis(
        "take_permit.lua",
        "if standing(s) ~= LIVE then return {2} end\n",
        "",
        "a caller whose session is over is admitted",
    ),
    _on_redis(
        "take_permit.lua",
        "if (reserved and reserved ~= s.id) or not gates.fits",
        "if not gates.fits",
        "a host that is reserved admits callers",
    ),
    _on_redis(
        "take_permit.lua",
        "tonumber(own[2]) <= now - given[8]",
        "true",
        "a caller reserves its host as soon as it asks",
    ),
    _on_redis(
        "take_permit.lua",
        "if may and gates.helped_by_an_end(room, taken, weight) then",
        "if may then",
        "a caller whom no end of a permit would help reserves its host",
    ),
    _on_redis(
        "include/gate.lua",
        "return state and state ~= 'dead'",
        "return state",
        "a host stays reserved for a caller that is dead",
    ),
    _on_redis(
        "include/gate.lua",
        "and redis.call('HEXISTS', P .. 'permit_of', reservation.holder) == 0",
        "",
        "a host stays reserved for a caller that has its permit",
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
        "functions/25_gate.sql",
        "IF (v_reserved IS NULL OR v_reserved = p_session)\n       AND limpet.v1_fits",
        "IF true\n       AND limpet.v1_fits",
        "a host that is reserved admits callers",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "              AND s.registered_at <= v_now - (p_room ->> 'patience')::bigint",
        "             ",
        "a caller reserves its host as soon as it asks",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "ELSIF limpet.v1_helped(p_room, v_carried, p_weight)\n          AND",
        "ELSIF",
        "a caller whom no end of a permit would help reserves its host",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "WHERE s.id = p_holder AND s.state <> 'dead')",
        "WHERE s.id = p_holder)",
        "a host stays reserved for a caller that is dead",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "           AND NOT EXISTS (SELECT FROM limpet.permit p WHERE p.holder = p_holder);",
        ";",
        "a host stays reserved for a caller that has its permit",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "WHERE v.job = p_job AND v.token = p_token AND v.server <> p_room ->> 'server'",
        "WHERE false",
        "who waits reserves every host",
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
        "IF (v_reserved IS NULL OR v_reserved = v_each.id)\n                   AND limpet.v1_fits",
        "IF true\n                   AND limpet.v1_fits",
        "the gate lets others in on a host that a job has reserved",
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
        "IF NOT pg_try_advisory_xact_lock(hashtextextended('limpet.reservation '",
        "IF false AND NOT pg_try_advisory_xact_lock(hashtextextended('limpet.reservation '",
        "a job before the gate reserves every host that meets it",
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
)
