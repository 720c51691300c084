-- relocation: the store's part in a move.
-- purpose: reads only.
-- params:  none
-- returns: {0, record (JSON) or '', up to where cargo has arrived or ''}
-- include: frame

local kept = redis.call('HMGET', KEYS[1], 'relocation', 'cursor')
return {0, kept[1] or '', kept[2] or ''}
