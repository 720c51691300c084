UPDATE limpet.done SET result = '1' WHERE state = 'failed';
