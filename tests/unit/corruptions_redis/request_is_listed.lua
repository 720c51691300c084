-- a cancellation that nobody tells the holder of
local id, row = some(4)
put(id, row, 67, struct.pack('>d', 1))
