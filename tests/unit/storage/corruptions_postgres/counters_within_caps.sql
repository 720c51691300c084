UPDATE limpet.done SET failures = -1 WHERE state = 'failed';
