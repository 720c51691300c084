-- a ready job that has a key and no turn of it
local id, row = some(@state.ready)
put(id, row, @row.flags, struct.pack(@row.flags.format, @flag.keyed))
