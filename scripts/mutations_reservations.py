"""How reservations of hosts are broken on purpose, in each store."""

from functools import partial

from mutation import Mutation

_on_sqlite = partial(Mutation, store="sqlite")
_on_redis = partial(Mutation, store="redis")
_on_postgres = partial(Mutation, store="postgres")

MUTATIONS = (
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.at > :since AND",
        "WHERE r.server = :server AND",
        "a reservation that nobody confirms holds a host for ever",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.n = :n AND r.server <> :server AND r.at > :since AND r.at < :until",
        "WHERE false",
        "a job reserves every host",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since AND",
        "WHERE r.server = :server AND r.n = 0 AND",
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
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since AND r.at < :until\n"
        "  AND NOT EXISTS (SELECT 1 FROM limpet_permit p WHERE p.holder = r.session)",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since AND r.at < :until",
        "a host stays reserved for a caller that has its permit",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.session = :session AND r.n = 0 AND r.server <> :server AND r.at > :since"
        " AND r.at < :until",
        "WHERE false",
        "a caller reserves every host",
    ),
    _on_sqlite(
        "gate.sql",
        "SELECT registered_at FROM limpet_session WHERE id = :session",
        "SELECT 0 FROM limpet_session WHERE id = :session",
        "a caller reserves its host as soon as it asks",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.at > :since AND r.at < :until",
        "WHERE r.server = :server AND r.at > :since",
        "a clock that is set back keeps a host reserved for a job",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since AND r.at < :until",
        "WHERE r.server = :server AND r.n = 0 AND r.at > :since",
        "a clock that is set back keeps a host reserved for a caller",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE r.n = :n AND r.server <> :server AND r.at > :since AND r.at < :until",
        "WHERE r.n = :n AND r.server <> :server AND r.at > :since",
        "a clock that is set back keeps a job from reserving another host",
    ),
    _on_sqlite(
        "gate.sql",
        "AND r.n = 0 AND r.server <> :server AND r.at > :since AND r.at < :until",
        "AND r.n = 0 AND r.server <> :server AND r.at > :since",
        "a clock that is set back keeps a caller from reserving another host",
    ),
    _on_sqlite(
        "gate.sql",
        "WHERE at <= :since OR at >= :until",
        "WHERE at <= :since",
        "a clock that is set back reserves a host again when it gets there",
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
        "string.byte(row, @row.state) == READY\n"
        "        and string.sub(row, @row.token, @row.token.last) == reservation.token",
        "true",
        "a host stays reserved for a job that is not ready any more",
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
        "include/gate.lua",
        "if math.abs(confirmed - now) < lifetime_us then",
        "if confirmed > now - lifetime_us then",
        "a clock that is set back keeps a host reserved",
    ),
    _on_redis(
        "include/gate.lua",
        "if math.abs(confirmed - now) < lifetime_us then",
        "if math.abs(confirmed - now) >= 0 then",
        "a reservation that nobody confirms holds a host for ever",
    ),
    _on_redis(
        "publish_host.lua",
        "gates.unreserve(lapsed)\n",
        "",
        "a clock that is set back reserves a host again when it gets there",
    ),
    _on_redis(
        "include/gate.lua",
        "if weight[1] > 0 and room[4] and room[4] + taken.cpu - taken.unseen_cpu <= 0 then",
        "if false then",
        "a host is reserved for cores that others have",
    ),
    _on_redis(
        "include/gate.lua",
        "room[4] + taken.cpu - taken.unseen_cpu <= 0",
        "room[4] + taken.cpu <= 0",
        "a host is reserved for cores that were not measured as taken",
    ),
    _on_redis(
        "include/gate.lua",
        "room[4] + taken.cpu - taken.unseen_cpu <= 0",
        "room[4] <= 0",
        "no host is reserved for cores that permits have",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "IF (v_reserved IS NULL OR v_reserved = p_session)\n       AND limpet.v1_fits",
        "IF true\n       AND limpet.v1_fits",
        "a host that is reserved admits callers",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "              AND s.registered_at <= v_now - (p_room ->> 'reserve_after_us')::bigint",
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
        "functions/25_gate.sql",
        "IF (v_reserved IS NULL OR v_reserved = v_job.id)\n                   AND limpet.v1_fits",
        "IF true\n                   AND limpet.v1_fits",
        "the gate lets others in on a host that a job has reserved",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "IF NOT pg_try_advisory_xact_lock(hashtextextended('limpet.reservation '",
        "IF false AND NOT pg_try_advisory_xact_lock(hashtextextended('limpet.reservation '",
        "a job before the gate reserves every host that meets it",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint\n",
        "AND v.at > p_now - (p_room ->> 'reserved_for')::bigint\n",
        "a clock that is set back keeps a host reserved",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint)",
        "AND v.at > p_now - (p_room ->> 'reserved_for')::bigint)",
        "a clock that is set back keeps who waits from reserving another host",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "AND abs(v.at - p_now) < (p_room ->> 'reserved_for')::bigint\n",
        "\n",
        "a reservation that nobody confirms holds a host for ever",
    ),
    _on_postgres(
        "sql/hosts.sql",
        "abs(v.at - limpet.v1_time(%(now)s)) >= %(reserved_for)s::bigint",
        "v.at <= limpet.v1_time(%(now)s) - %(reserved_for)s::bigint",
        "a clock that is set back reserves a host again when it gets there",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "AND (w.cpu = 0 OR r.free_cpu IS NULL OR r.free_cpu + c.cpu - c.unseen_cpu > 0)\n",
        "\n",
        "a host is reserved for cores that others have",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "r.free_cpu + c.cpu - c.unseen_cpu > 0",
        "r.free_cpu + c.cpu > 0",
        "a host is reserved for cores that were not measured as taken",
    ),
    _on_postgres(
        "functions/25_gate.sql",
        "r.free_cpu + c.cpu - c.unseen_cpu > 0",
        "r.free_cpu > 0",
        "no host is reserved for cores that permits have",
    ),
)
