-- a line of a job that is gone
INSERT INTO limpet_log (n, at, level, message) VALUES (999999, 1, 'info', 'hello');
