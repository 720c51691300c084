-- a session said to hold one more job than it does
UPDATE limpet_session SET held_count = held_count + 1 WHERE state = 'live';
