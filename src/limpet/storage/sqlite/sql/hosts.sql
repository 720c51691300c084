-- hosts: the reports of hosts.
-- purpose: keep one report for each host, and its samples.
-- params:  by name, or tuples in the order of the columns; times in microseconds.
-- returns: hosts, host, samples: columns in the order of the domain's records.

-- statement: publish
INSERT INTO limpet_host (server, body, at, until) VALUES (:server, :body, :now, :until)
ON CONFLICT (server) DO UPDATE SET body = excluded.body, at = excluded.at, until = excluded.until

-- statement: gone
DELETE FROM limpet_host WHERE until <= :now

-- statement: sample
INSERT INTO limpet_sample (server, span, at, body) VALUES (?, ?, ?, ?)
ON CONFLICT (server, span, at) DO UPDATE SET body = excluded.body

-- statement: old
DELETE FROM limpet_sample WHERE span = :span AND at <= :before

-- statement: hosts
SELECT server, body, at, until FROM limpet_host WHERE until > :now ORDER BY server

-- statement: host
SELECT server, body, at, until FROM limpet_host WHERE server = :server AND until > :now

-- statement: samples
SELECT span, at, body FROM limpet_sample WHERE server = :server AND span = :span ORDER BY at
