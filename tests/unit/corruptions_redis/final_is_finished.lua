-- a quarantined job that has an end
local id, row = some(5)
put(id, row, 24, struct.pack('>d', 1))
