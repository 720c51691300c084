-- a ready job that was lost as often as is allowed
local id, row = some(@state.ready)
put(id, row, @row.orphans, struct.pack(@row.orphans.format, 10))
