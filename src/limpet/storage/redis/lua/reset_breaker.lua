-- reset_breaker: close a breaker for a user.
-- purpose: open or probing to closed.
-- params:  given[4] name
-- returns: {0, 1 if there is such a breaker}
-- include: frame
-- include: unclosed
-- include: row
-- include: rates
-- include: keys
-- include: moves
-- include: write
-- include: bounds
-- include: breakers

local b = breakers.find(given[4])
if not b then return {0, 0} end
if b.state ~= 'closed' then
    breakers.shut(b)
    breakers.keep(b)
    note_ruled()
    finish()
end
return {0, 1}
