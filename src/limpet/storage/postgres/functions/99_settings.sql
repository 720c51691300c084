-- settings: how the functions are planned.
-- purpose: the right plan is known, and does not depend on the contents of the tables: rows are found by their
--          index, lists are joined by hash. Without these settings the planner would read a whole table
--          because it was small once, or go through a list for each row of another. A fixed plan can also be
--          kept. Set on the functions, because behind a pooler no connection keeps its settings.
-- params:  none.
-- returns: nothing.

ALTER FUNCTION limpet.v1_enqueue SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_exchange SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_exchange SET enable_seqscan = off;
ALTER FUNCTION limpet.v1_exchange SET enable_bitmapscan = off;
ALTER FUNCTION limpet.v1_exchange SET enable_hashjoin = off;
ALTER FUNCTION limpet.v1_exchange SET enable_mergejoin = off;
ALTER FUNCTION limpet.v1_complete SET enable_hashjoin = on;
ALTER FUNCTION limpet.v1_complete SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_admit SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_admit SET enable_seqscan = off;
ALTER FUNCTION limpet.v1_admit SET enable_bitmapscan = off;
ALTER FUNCTION limpet.v1_admit SET enable_mergejoin = off;
ALTER FUNCTION limpet.v1_give_turns SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_carry SET enable_hashjoin = on;
ALTER FUNCTION limpet.v1_carry SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_after SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_after SET enable_seqscan = off;
ALTER FUNCTION limpet.v1_after SET enable_bitmapscan = off;
ALTER FUNCTION limpet.v1_after SET enable_hashjoin = on;
ALTER FUNCTION limpet.v1_after SET enable_mergejoin = off;
ALTER FUNCTION limpet.v1_after SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_turns SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_turns SET enable_seqscan = off;
ALTER FUNCTION limpet.v1_turns SET enable_bitmapscan = off;
ALTER FUNCTION limpet.v1_turns SET enable_hashjoin = on;
ALTER FUNCTION limpet.v1_turns SET enable_mergejoin = off;
ALTER FUNCTION limpet.v1_turns SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_shift SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION limpet.v1_shift SET enable_seqscan = off;
ALTER FUNCTION limpet.v1_shift SET enable_bitmapscan = off;
ALTER FUNCTION limpet.v1_shift SET enable_hashjoin = on;
ALTER FUNCTION limpet.v1_shift SET enable_nestloop = off;
ALTER FUNCTION limpet.v1_lapse SET enable_nestloop = off;

-- These are called within transactions of users, whose search_path may find other functions first.
ALTER FUNCTION limpet.v1_admit SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_enqueue SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_held_uniques SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_queue_lengths SET search_path = pg_catalog, pg_temp;
