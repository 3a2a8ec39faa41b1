-- Delivery loops and logs query tables that can be empty today and have millions of rows tomorrow, while a session keeps its plans. A
-- plan made for an empty table reads a full table from end to end. So functions on these tables forbid the scans and joins that suit
-- only small tables, which leaves every statement its index.

-- Forbids plans to a function of this schema. Call it again whenever a function is replaced, because `create or replace` drops the
-- settings. `more` names further settings: `enable_sort` where the order of a statement names its index.
--
-- jit: the planner counts a forbidden method as extremely expensive, and would compile every such plan (0.8 s for a list of eight
-- rows). Most of these functions also set plan_cache_mode = force_generic_plan, because planning every call anew takes six times as
-- long as the call. The functions of retention have force_custom_plan: planning costs little beside a part of a purge.
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
