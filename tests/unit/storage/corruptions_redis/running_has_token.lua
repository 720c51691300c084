-- a running job that was never claimed
local id, row = some(@state.running)
put(id, row, @row.claimed_at, struct.pack(@row.claimed_at.format, -1))
