-- digest: the digest of what a session holds; see domain/lease.py, which computes the same.
-- why:     numbers stay below 2^53, where Lua's are exact.

local MODULUS = 281474976710656
local held_count, held_names, held_tokens = 0, 0, 0

local function hold(id, token)
    held_count = held_count + 1
    held_names = held_names + (tonumber(string.sub(id, -8), 32) or 0)
    held_tokens = held_tokens + token % 1048576
end

local function let_go(id, token)
    held_count = held_count - 1
    held_names = held_names - (tonumber(string.sub(id, -8), 32) or 0)
    held_tokens = held_tokens - token % 1048576
end

-- The sum of names and of tokens times 0x9E3779B1, which is 40503 * 65536 + 31153.
local function new_total(total)
    local high = (held_tokens * 40503) % 4294967296 * 65536
    return (total + held_names + high + held_tokens * 31153) % MODULUS
end

local function hold_text(s)
    return whole(s.count + held_count), whole(new_total(s.total))
end
