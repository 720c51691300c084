-- an index that says it is of another column than the one its entries were made from
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = 'CREATE INDEX limpet_job_due ON limpet_job (created_at) WHERE state = ''scheduled'''
WHERE name = 'limpet_job_due';
PRAGMA writable_schema = OFF;
