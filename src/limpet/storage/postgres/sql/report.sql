-- report: progress and log lines of running attempts (see fence.sql).
-- purpose: keep the last progress and the last lines.
-- params:  progress, lines: rows: a JSON list in the order of the columns.
--          trim: the job, and how many lines to keep.
-- returns: nothing.

-- statement: progress
INSERT INTO limpet.progress (id, token, done, total, note, at)
SELECT DISTINCT ON (e.value ->> 0)
       e.value ->> 0, (e.value ->> 1)::bigint, (e.value ->> 2)::double precision,
       (e.value ->> 3)::double precision, e.value ->> 4, (e.value ->> 5)::bigint
FROM json_array_elements(%(rows)s::json) WITH ORDINALITY AS e (value, place)
ORDER BY e.value ->> 0, e.place DESC
ON CONFLICT (id) DO UPDATE SET token = excluded.token, done = excluded.done,
    total = excluded.total, note = excluded.note, at = excluded.at

-- statement: lines
INSERT INTO limpet.log (id, at, level, message)
SELECT e.value ->> 0, (e.value ->> 1)::bigint, e.value ->> 2, e.value ->> 3
FROM json_array_elements(%(rows)s::json) WITH ORDINALITY AS e (value, place)
ORDER BY e.place

-- statement: trim
DELETE FROM limpet.log WHERE id = %(id)s AND l <= (
    SELECT l FROM limpet.log WHERE id = %(id)s ORDER BY l DESC LIMIT 1 OFFSET %(keep)s)
