-- moved_settings: the settings of a store, which a move carries beside the jobs.

local SETTINGS = {'declared', 'adjusted', 'holds', 'draining', 'served', 'given', 'key_rules',
    'breaker_rules', 'breaker_state', 'tripped', 'schedules', 'ticks'}

local function clear_settings()
    for _, key in ipairs(SETTINGS) do redis.call('DEL', P .. key) end
end
