-- a session that died of nothing
UPDATE limpet_session SET cause = NULL WHERE state = 'dead';
