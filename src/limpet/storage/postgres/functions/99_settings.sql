-- settings: how the functions are planned.
-- purpose: plans are made for the values at hand. A plan that is kept turns slow when a small table
--          has grown. Set on the functions, because a pooler gives no connection of one's own.

ALTER FUNCTION limpet.v1_enqueue SET plan_cache_mode = force_custom_plan;
ALTER FUNCTION limpet.v1_exchange SET plan_cache_mode = force_custom_plan;
