-- at_stage: cargo is taken, or thrown away, only at the right stage of the same move.
-- params:  given[4] the move

local function is_at(stage)
    local record = redis.call('HGET', KEYS[1], 'relocation')
    return closed == stage and record and (stored.json(record) or {}).id == given[4]
end
