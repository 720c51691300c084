-- 0008_callers: hosts that are reserved for callers outside of any worker.
-- Code of version 7 may work beside: it takes such a reservation for none, and may put that of a job in
-- its place.

-- The caller for whom nothing else is admitted there. Then n is 0, which no job has; else it says nothing.
ALTER TABLE limpet_reservation ADD COLUMN session TEXT;
