UPDATE limpet.ready SET sort_key = sort_key + 1;
