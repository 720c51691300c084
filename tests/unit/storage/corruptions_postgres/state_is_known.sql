UPDATE limpet.done SET state = 'odd' WHERE state = 'failed';
UPDATE limpet.tally SET target = 'odd' WHERE target = 'failed';
