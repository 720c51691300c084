-- children: the jobs whose parent it is, oldest first.
-- purpose: reads only.
-- params:  parent, number to continue after or false, how many.
-- returns: {0, parts of each job}.
-- include: frame
-- include: row
-- include: told_jobs

local after = given[5] and '(' .. whole(given[5]) or '-inf'
return {0, told_jobs(redis.call('ZRANGEBYSCORE', P .. 'children/' .. given[4], after, '+inf', 'LIMIT',
    0, given[6]))}
