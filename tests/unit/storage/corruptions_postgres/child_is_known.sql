UPDATE limpet.ready SET shaped = true;
UPDATE limpet.job SET parent = 'p' WHERE id IN (SELECT id FROM limpet.ready);
