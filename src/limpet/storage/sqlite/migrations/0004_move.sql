-- 0004_move: a store that moves to another place.

ALTER TABLE limpet_store ADD COLUMN closed TEXT;     -- what every verb sees: NULL when open
ALTER TABLE limpet_store ADD COLUMN relocation TEXT; -- JSON: its part in a move
ALTER TABLE limpet_store ADD COLUMN cursor TEXT;     -- up to where cargo has arrived
