-- job: one job.
-- purpose: reads only.
-- params:  job.
-- returns: {0, the job's parts}; {0} where there is none.
-- include: frame
-- include: row
-- include: told_jobs

if redis.call('HEXISTS', P .. 'row', given[4]) == 0 then return {0} end
return {0, told_jobs({given[4]})[1]}
