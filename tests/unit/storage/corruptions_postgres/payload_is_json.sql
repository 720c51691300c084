UPDATE limpet.job SET args = '{' WHERE id = (SELECT min(id) FROM limpet.job);
