UPDATE limpet.running SET seq = seq + 1;
