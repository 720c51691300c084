UPDATE limpet.ready SET n = n + 1000;
