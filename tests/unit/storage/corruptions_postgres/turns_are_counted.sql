INSERT INTO limpet.key (name, held) VALUES ('k', 1);
