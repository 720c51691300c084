-- children: the children of a job, oldest first.
-- purpose: reads only.
-- params:  given[4] parent
--          given[5] number of the child to continue after, or false
--          given[6] how many
-- returns: {0, parts of each child}
-- include: frame
-- include: row
-- include: job_parts

local after = given[5] and '(' .. whole(given[5]) or '-inf'
return {0, job_parts(redis.call('ZRANGEBYSCORE', P .. 'children/' .. given[4], after, '+inf', 'LIMIT',
    0, given[6]))}
