-- hosts: what hosts publish about themselves.
-- purpose: one row for each host, and samples of its load.
-- params:  by name; times in microseconds.
--          now: the wall time, or NULL.
--          samples: a JSON list of lists.
-- returns: hosts, host, samples: columns in the order of the contract.
-- why:     every host that publishes also removes old rows; rows that another one is removing are skipped.

-- statement: publish
INSERT INTO limpet.host (server, body, at, until)
SELECT %(server)s, %(body)s, t.now, t.now + %(lifetime)s::bigint
FROM limpet.v1_time(%(now)s) AS t (now)
ON CONFLICT (server) DO UPDATE SET body = excluded.body, at = excluded.at, until = excluded.until

-- statement: gone
DELETE FROM limpet.host WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM limpet.host h WHERE h.until <= limpet.v1_time(%(now)s) FOR UPDATE SKIP LOCKED))

-- statement: unreserved
DELETE FROM limpet.reservation WHERE ctid = ANY (ARRAY(
    SELECT v.ctid FROM limpet.reservation v
    WHERE abs(v.at - limpet.v1_time(%(now)s)) >= %(reserved_for)s::bigint FOR UPDATE SKIP LOCKED))

-- statement: sample
INSERT INTO limpet.sample (server, span, at, body)
SELECT %(server)s, value ->> 0, (value ->> 1)::bigint, value ->> 2
FROM json_array_elements(%(samples)s::json)
ON CONFLICT (server, span, at) DO UPDATE SET body = excluded.body

-- statement: old
DELETE FROM limpet.sample WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM limpet.sample s
    WHERE s.span = %(span)s AND s.at <= limpet.v1_time(%(now)s) - %(kept)s::bigint
    FOR UPDATE SKIP LOCKED))

-- statement: hosts
SELECT server, body, at, until FROM limpet.host
WHERE until > limpet.v1_time(%(now)s) ORDER BY server

-- statement: host
SELECT server, body, at, until FROM limpet.host
WHERE server = %(server)s AND until > limpet.v1_time(%(now)s)

-- statement: samples
SELECT span, at, body FROM limpet.sample WHERE server = %(server)s AND span = %(span)s ORDER BY at
