-- unclosed: refuse where nothing is written any more, or not yet, because the store moves.
-- returns: {-2}; the caller asks why.

if closed and closed ~= 'closing' then return {-2} end
