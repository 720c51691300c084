-- breakers: every breaker.
-- purpose: reads only.
-- params:  none
-- returns: {0, rules, states}
--          rules: pairs of name and rules (JSON)
--          states: the state of each (msgpack, false for none), in the same order
-- include: frame

local rules, states = redis.call('HGETALL', P .. 'breaker_rules'), {}
for at = 1, #rules, 2 do
    states[#states + 1] = redis.call('HGET', P .. 'breaker_state', rules[at])
end
return {0, rules, states}
