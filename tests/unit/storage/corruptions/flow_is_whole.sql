-- a committed flow of which a part is lost
INSERT INTO limpet_flow (flow, chunks, committed_at) VALUES ('f', 1, 1);
