-- permits_held: whether the holder of a permit is there. Needs permits.lua, row.lua and session.lua.

function permits.is_held(p)
    if p.holder == p.session then
        local s = find_session(p.session)
        return s and s.state ~= DEAD
    end
    local r = find_row(p.holder)
    return holds(r, p.session, r and r.token)
end
