INSERT INTO limpet.breaker VALUES ('b', '{', '{}', 'closed', NULL, 1);
