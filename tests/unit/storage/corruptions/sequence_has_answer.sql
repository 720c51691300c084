-- an exchange whose answer was thrown away
DELETE FROM limpet_answer;
