INSERT INTO limpet.log (id, at, level, message) VALUES ('gone', 1, 'info', 'x');
