UPDATE limpet.done SET token = 0 WHERE state = 'failed';
