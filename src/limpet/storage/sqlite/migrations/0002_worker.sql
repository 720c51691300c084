-- 0002_worker: what the neighbours of a worker need to know of it.

-- JSON: the path, inode and nonce of the files whose locks prove whether its processes live.
ALTER TABLE limpet_session ADD COLUMN lock TEXT;
