-- relocate: a store that moves to another place; see storage/relocation.py.
-- purpose: close a store for all that write, and open it again.
-- params:  by name.
-- returns: closed: the stage of a store that is closed; record: its part in a move and the cursor;
--          in_the_way: how many jobs run, with flows that are to be written out and parents whose
--          children are to be cancelled; how many jobs there are; how many sessions live.

-- statement: closed
SELECT closed FROM limpet_store

-- statement: record
SELECT relocation, cursor FROM limpet_store

-- statement: in_the_way
SELECT (SELECT count(*) FROM limpet_job WHERE state = 'running' AND session > '')
       + (SELECT count(*) FROM limpet_flow INDEXED BY limpet_flow_open WHERE whole = 0)
       + (SELECT count(*) FROM limpet_gone),
       (SELECT coalesce(sum(jobs), 0) FROM limpet_gauge)
       + (SELECT count(*) FROM limpet_flow INDEXED BY limpet_flow_open WHERE whole = 0),
       (SELECT count(*) FROM limpet_session WHERE state <> 'dead')

-- statement: write
UPDATE limpet_store
SET closed = :closed, relocation = :record, cursor = NULL
