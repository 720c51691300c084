WITH one AS (
    UPDATE limpet.parked SET state = 'blocked', reason = 'key', what = E'k\x1e1', since = 1
    WHERE id = (SELECT min(id) FROM limpet.parked WHERE state = 'scheduled') RETURNING id)
UPDATE limpet.job j SET key = 'k' FROM one WHERE j.id = one.id;
INSERT INTO limpet.tally VALUES ('default', '', 'scheduled', 'blocked', 1);
INSERT INTO limpet.note (kind, what) VALUES ('key', 'k');
