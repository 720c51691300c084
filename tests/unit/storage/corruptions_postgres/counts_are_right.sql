INSERT INTO limpet.tally VALUES ('default', 'enqueue', NULL, 'ready', 1);
