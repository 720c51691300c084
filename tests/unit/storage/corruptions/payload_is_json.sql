-- arguments cut short
UPDATE limpet_payload SET args = '{"to": ' WHERE n = (SELECT n FROM limpet_job WHERE state = 'running');
