-- a running job held by nobody that the store knows
UPDATE limpet_job SET session = 'nobody' WHERE state = 'running';
UPDATE limpet_session SET held_count = 0, held_total = 0;
