-- bell: who wants to be woken.
-- purpose: a bell of this schema is a channel; the functions ring it, and so does a commit.
-- params:  by name.
-- returns: server: the process of the server that answers; else nothing.

-- statement: listen
LISTEN {channel}

-- statement: unlisten
UNLISTEN *

-- statement: server
SELECT pg_backend_pid()

-- statement: pulse
SELECT 1

-- statement: probe
SELECT pg_notify(%(channel)s, %(word)s)
