UPDATE limpet.session SET ended_at = NULL;
