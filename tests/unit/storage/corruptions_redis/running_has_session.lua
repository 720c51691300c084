-- a running job whose session is gone
local id, row = some(@state.running)
redis.call('DEL', P .. 'session/' ..
    string.sub(row, @row.session, @row.session_length + string.byte(row, @row.session_length)))
