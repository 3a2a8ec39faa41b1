-- The number series of invoices and proposals. Sequences won't do, because a rollback would leave a gap.
create table business_api.number_series (
  organization_id text collate "C" not null,
  series text collate "C" not null,
  last bigint not null,
  constraint number_series_pkey primary key (organization_id, series)
);

-- Formats a number with at least four digits, for example `INV-2026-0042`. Has no settings so that it's inlined.
create function business_api.format_number(series text, count bigint) returns text
language sql immutable
as $$ select series || '-' || pg_catalog.lpad(count::text, greatest(4, pg_catalog.length(count::text)), '0') $$;

-- Takes the next number in a series that no other record of the same kind uses. An existing record keeps its number.
-- The series is locked until the end of the transaction, so after a rollback, the next record gets the number. Each
-- number is looked up in the unique index, because the host may have assigned a hundred thousand consecutive numbers.
-- The ranges and the order force the planner to use that index, even in a plan from when the table was empty.
create function business_api.next_number(organization_id text, series text, table_name text, record_id text) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  counted bigint;
  known text;
begin
  insert into business_api.number_series as s (organization_id, series, last) values ($1, $2, 0)
  on conflict (organization_id, series) do update set last = s.last
  returning last into counted;
  -- Read after locking, to see what an earlier attempt has committed.
  if table_name = 'business_api.invoices' then
    select i.number into known from business_api.invoices i
     where i.organization_id = $1 and i.id >= $4 and i.id <= $4 order by i.id limit 1;
    select n.count into counted from (select generate_series(counted + 1, 999999999999999) as count) as n
     where (
       select i.id from business_api.invoices i
        where i.organization_id = $1 and i.number >= business_api.format_number($2, n.count)
          and i.number <= business_api.format_number($2, n.count) order by i.number limit 1
     ) is null limit 1;
  else
    select p.number into known from business_api.proposals p
     where p.organization_id = $1 and p.id >= $4 and p.id <= $4 order by p.id limit 1;
    select n.count into counted from (select generate_series(counted + 1, 999999999999999) as count) as n
     where (
       select p.id from business_api.proposals p
        where p.organization_id = $1 and p.number >= business_api.format_number($2, n.count)
          and p.number <= business_api.format_number($2, n.count) order by p.number limit 1
     ) is null limit 1;
  end if;
  if known is not null then
    return known;
  end if;
  update business_api.number_series s set last = counted where s.organization_id = $1 and s.series = $2;
  return business_api.format_number($2, counted);
end
$$;
select business_api.forbid_plans('next_number', 'enable_sort');
