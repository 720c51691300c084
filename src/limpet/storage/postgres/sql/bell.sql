-- bell: wake those that wait for a topic.
-- purpose: a topic of this schema is a channel. Frequent changes are rung for after their commit, many at
--          once; rare changes are rung for by their function.
-- params:  by name.
-- returns: server: the id of the server process that answers.
--          all others: nothing.

-- statement: listen
LISTEN {channel}

-- statement: unlisten
UNLISTEN *

-- statement: server
SELECT pg_backend_pid()

-- statement: pulse
SELECT 1

-- statement: at_once
-- A NOTIFY writes nothing to the disk, so its commit need not wait. Sent in one message with the NOTIFYs.
SET LOCAL synchronous_commit = off

-- statement: ring
NOTIFY {channel}

-- statement: probe
SELECT pg_notify(%(channel)s, %(word)s)
