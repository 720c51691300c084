-- grants: the rights of a role that uses a store and does not own it.
-- purpose: the owner of the schema runs this once, after `limpet migrate`, with the name of the role in
--          place of limpet_role. The role can neither change the tables nor see other schemas.

GRANT USAGE ON SCHEMA limpet TO limpet_role;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA limpet TO limpet_role;
REVOKE INSERT, UPDATE, DELETE ON limpet.store FROM limpet_role;
GRANT UPDATE (one) ON limpet.store TO limpet_role; -- never changed; needed to lock the row, see pass
REVOKE UPDATE ON limpet.job, limpet.event, limpet.log, limpet.taskset, limpet.child, limpet.staged,
          limpet.permit
FROM limpet_role;
GRANT UPDATE (queue, args, payload_version, secrets) ON limpet.job TO limpet_role; -- requeue, repair
REVOKE DELETE ON limpet.queue, limpet.server, limpet.breaker FROM limpet_role;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA limpet TO limpet_role;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA limpet TO limpet_role;
-- To be warned of long transactions of other roles, also: GRANT pg_read_all_stats TO limpet_role;
