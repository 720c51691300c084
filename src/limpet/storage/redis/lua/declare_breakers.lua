-- declare_breakers: what the app says of its breakers.
-- purpose: the state of those that are known stays.
-- params:  pairs of name and rules (JSON).
-- returns: {0}.
-- include: frame
-- include: unclosed
-- include: write
-- include: many

many('HSET', P .. 'breaker_rules', given[4])
return {0}
