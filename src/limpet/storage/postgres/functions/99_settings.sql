-- settings: how the functions are planned.
-- purpose: the right plan is known, and does not depend on what the tables had in them when the plan
--          was made: rows are found by their index, lists are joined by hash. A planner that is free
--          reads a whole table because it was small once, or goes through a list for each row of
--          another. So the plan can be kept as well. Set on the functions, because a pooler gives
--          no connection of one's own.
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
ALTER FUNCTION limpet.v1_take_turns SET enable_nestloop = off;
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

-- Called within a transaction of the user's own, where others' functions may be found first.
ALTER FUNCTION limpet.v1_admit SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_enqueue SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_held_uniques SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION limpet.v1_room SET search_path = pg_catalog, pg_temp;
