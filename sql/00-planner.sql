-- Delivery loops and logs query tables that may be empty today and have millions of rows tomorrow. Sessions cache their
-- plans, and a plan made for an empty table scans the whole table after it has grown. So functions on these tables
-- disable the scans and joins that are only good for small tables, which makes every statement use its index.

-- Disables plan types for a function in this schema. Call this again whenever a function is replaced, because `create
-- or replace` drops its settings. `more` has additional settings, such as `enable_sort` for statements whose order
-- makes the planner use a certain index.
--
-- jit is disabled because the planner adds a huge cost for disabled plan types and would JIT-compile all of these
-- plans, which took 0.8 s for a list of eight rows. Most of the functions also set plan_cache_mode =
-- force_generic_plan, because planning a call takes six times as long as executing it. The retention functions use
-- force_custom_plan, because planning is cheap compared to a part of a purge.
create function business_api.forbid_plans(function_name text, variadic more text[] default '{}') returns void
language plpgsql volatile
set search_path = ''
as $$
declare
  setting text;
begin
  foreach setting in array array['jit', 'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'enable_bitmapscan'] || more loop
    execute format('alter function %s set %I = off', ('business_api.' || function_name)::regproc::regprocedure, setting);
  end loop;
end
$$;
