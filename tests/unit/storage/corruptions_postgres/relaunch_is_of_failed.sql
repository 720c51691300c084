INSERT INTO limpet.relaunch (id, at) SELECT id, 1 FROM limpet.done WHERE state = 'succeeded';
