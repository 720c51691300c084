-- a running job that was never claimed
local id, row = some(4)
put(id, row, 16, struct.pack('>d', -1))
