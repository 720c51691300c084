-- job: one job.
-- purpose: reads only.
-- params:  given[4] job
-- returns: {0, the parts of the job}
--          {0} there is none
-- include: frame
-- include: row
-- include: job_parts

if redis.call('HEXISTS', P .. 'row', given[4]) == 0 then return {0} end
return {0, job_parts({given[4]})[1]}
