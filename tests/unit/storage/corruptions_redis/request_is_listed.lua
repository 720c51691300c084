-- a cancellation that nobody tells the holder of
local id, row = some(@state.running)
put(id, row, @row.requested_at, struct.pack(@row.requested_at.format, 1))
