UPDATE limpet.running SET claimed_at = NULL;
