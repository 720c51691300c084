WITH one AS (
    UPDATE limpet.parked SET state = 'blocked', reason = 'key',
        what = limpet.v1_line_place('k', sort_key, n), since = 1
    WHERE id = (SELECT min(id) FROM limpet.parked WHERE state = 'scheduled') RETURNING id)
UPDATE limpet.job j SET key = 'k' FROM one WHERE j.id = one.id;
INSERT INTO limpet.tally VALUES ('default', '', 'scheduled', 'blocked', 1);
