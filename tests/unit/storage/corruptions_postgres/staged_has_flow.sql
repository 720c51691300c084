INSERT INTO limpet.staged VALUES ('f', 0, 1, 'x', NULL, '{}');
