-- relocate: a store that moves to another place; see storage/contract/relocation.py.
-- purpose: close a store to all writers, and open it again.
-- params:  by name.
-- returns: closed: the stage of a closed store.
--          record: the store's part in a move, and the cursor.
--          in_the_way: the number of running jobs (plus flows that are still to be written out and
--              parents whose children are still to be cancelled), of all jobs, and of live sessions.

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
