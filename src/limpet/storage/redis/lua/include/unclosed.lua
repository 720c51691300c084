-- unclosed: refuses a write while the store moves, because it is no longer written, or not yet.
-- returns: {-2}; the caller reads why.

if closed and closed ~= 'closing' then return {-2} end
