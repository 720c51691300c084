-- declare_breakers: keep the breakers that the app declares.
-- purpose: a breaker that is known keeps its state.
-- params:  given[4] pairs of name and rules (JSON)
-- returns: {0}
-- include: frame
-- include: unclosed
-- include: write
-- include: many

many('HSET', P .. 'breaker_rules', given[4])
return {0}
