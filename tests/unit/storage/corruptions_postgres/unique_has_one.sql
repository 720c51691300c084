INSERT INTO limpet.single (task, name, id) SELECT 'work', 'u', min(id) FROM limpet.done;
