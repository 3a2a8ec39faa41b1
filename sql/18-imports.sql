-- Imports of existing records, with IDs and dates chosen by the host.

-- Imports a batch. See ImportStore.write in lib/resources/imports.ts. `records` has an array for each record kind,
-- where `row` is a record's position in the batch. `steps` has the statements that lib/postgres/imports.ts generates
-- from each kind's columns. Their parameters are the organization, the records and the known rows (true if the
-- organization already has the same record, false if the values differ). Returns a JSON object with either `refused`,
-- an array of rows and reasons, or `known`.
--
-- This isn't a single statement because inserts must see what was committed while waiting for the number series.
create function business_api.import_records(organization_id text, records jsonb, steps jsonb) returns jsonb
language plpgsql volatile
set search_path = ''
set plan_cache_mode = force_custom_plan
as $$
declare
  known jsonb := '{}';
  step text;
  found_rows jsonb;
  refused jsonb := '[]';
  inserted bigint;
  missing bigint;
begin
  for step in select jsonb_array_elements_text(steps -> 'lock') loop
    execute step using $1, records, known;
  end loop;
  for step in select jsonb_array_elements_text(steps -> 'compare') loop
    execute step into found_rows using $1, records, known;
    known := known || coalesce(found_rows, '{}');
  end loop;
  for step in select jsonb_array_elements_text(steps -> 'refuse') loop
    execute step into found_rows using $1, records, known;
    refused := refused || coalesce(found_rows, '[]');
  end loop;
  if refused <> '[]' then
    return jsonb_build_object('refused', refused);
  end if;

  select count(*) into missing
    from jsonb_each(records) as kind, jsonb_array_elements(kind.value) as g
   where not known ? (g ->> 'row');
  for step in select jsonb_array_elements_text(steps -> 'write') loop
    execute step using $1, records, known;
    get diagnostics inserted = row_count;
    missing := missing - inserted;
  end loop;
  if missing <> 0 then
    -- Another transaction was faster to write one of the IDs or numbers. The retried batch sees that record.
    raise exception 'Cannot import the records because another transaction wrote one of them first'
      using errcode = 'serialization_failure';
  end if;
  for step in select jsonb_array_elements_text(steps -> 'count') loop
    execute step using $1, records, known;
  end loop;
  return jsonb_build_object('known', known);
end
$$;
select business_api.forbid_plans('import_records');
