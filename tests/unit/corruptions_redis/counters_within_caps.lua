-- a ready job that was lost as often as is allowed
local id, row = some(2)
put(id, row, 43, struct.pack('>I4', 10))
