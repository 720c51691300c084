-- furniture: everything that is not a job and is carried along in a move.

local FURNITURE = {'declared', 'adjusted', 'holds', 'draining', 'served', 'given', 'key_rules',
    'breaker_rules', 'breaker_state', 'tripped', 'schedules', 'ticks'}

local function clear_furniture()
    for _, key in ipairs(FURNITURE) do redis.call('DEL', P .. key) end
end
