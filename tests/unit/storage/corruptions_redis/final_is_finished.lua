-- a quarantined job that has an end
local id, row = some(@state.quarantined)
put(id, row, @row.finished_at, struct.pack(@row.finished_at.format, 1))
