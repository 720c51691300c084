-- report: the reports of running attempts (see fence.sql).
-- purpose: keep the last progress and the last lines.
-- params:  progress, line: a tuple in the order of the columns.
--          trim: :n, and :keep, the number of lines to keep.
-- returns: nothing.

-- statement: progress
INSERT INTO limpet_progress (n, token, done, total, note, at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (n) DO UPDATE SET token = excluded.token, done = excluded.done,
    total = excluded.total, note = excluded.note, at = excluded.at

-- statement: line
INSERT INTO limpet_log (n, at, level, message) VALUES (?, ?, ?, ?)

-- statement: trim
DELETE FROM limpet_log WHERE n = :n AND l <= (
    SELECT l FROM limpet_log WHERE n = :n ORDER BY l DESC LIMIT 1 OFFSET :keep)
