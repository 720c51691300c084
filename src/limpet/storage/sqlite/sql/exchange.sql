-- exchange: the frame around settle and claim.
-- purpose: keep the answer, so that the same seq gets the same answer.
-- params:  by name.
-- returns: answer: the body of the kept answer.

-- statement: advance
UPDATE limpet_session
SET seq = :seq, held_count = held_count + :count,
    held_total = (held_total + :total) & 281474976710655
WHERE id = :session

-- statement: keep
INSERT INTO limpet_answer (session, seq, body) VALUES (:session, :seq, :body)
ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, body = excluded.body

-- statement: answer
SELECT body FROM limpet_answer WHERE session = :session AND seq = :seq
