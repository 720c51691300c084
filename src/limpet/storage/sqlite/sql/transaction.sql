-- transaction: what verbs write beside their own rows.
-- purpose: count jobs by state and moves by queue; keep the events of the timeline.
-- params:  tuples, in the order of the columns.
-- returns: nothing.

-- statement: gauge
INSERT INTO limpet_gauge (queue, state, jobs) VALUES (?, ?, ?)
ON CONFLICT (queue, state) DO UPDATE SET jobs = jobs + excluded.jobs

-- statement: total
INSERT INTO limpet_total (queue, move, count) VALUES (?, ?, ?)
ON CONFLICT (queue, move) DO UPDATE SET count = count + excluded.count

-- statement: event
INSERT INTO limpet_event (n, at, event, session, token, cause, claimed_at, settled)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
