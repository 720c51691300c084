-- bell: who wants to be woken.
-- purpose: a bell of this schema is a channel. What happens often is rung for after its commit, for
--          many at once; what happens rarely is rung for by its function.
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

-- statement: at_once
-- Nothing of it is on the disk, so there is nothing to wait for. In one message with what follows.
SET LOCAL synchronous_commit = off

-- statement: ring
NOTIFY {channel}

-- statement: probe
SELECT pg_notify(%(channel)s, %(word)s)
