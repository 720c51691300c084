-- a ready job that has a key and no turn of it
local id, row = some(2)
put(id, row, 34, '\4')
