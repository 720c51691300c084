-- one more counted than there are
UPDATE limpet_gauge SET jobs = jobs + 1 WHERE state = 'running';
