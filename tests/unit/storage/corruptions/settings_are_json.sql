-- a rate that cannot be read
INSERT INTO limpet_key (key, rate) VALUES ('k', '{');
