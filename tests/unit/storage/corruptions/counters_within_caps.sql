-- a strike that was no loss
UPDATE limpet_job SET strikes = orphans + 1 WHERE state = 'succeeded';
