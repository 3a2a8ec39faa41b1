-- The numbers of invoices and proposals, in series. A sequence of PostgreSQL would leave gaps, because a rollback does not give
-- a value back, and the numbers of invoices must have no gaps.
create table business_api.number_series (
  organization_id text collate "C" not null,
  series text collate "C" not null,
  last bigint not null,
  constraint number_series_pkey primary key (organization_id, series)
);

-- Formats a number of a series, with at least four digits: `INV-2026-0042`. Without settings, so that it is inlined.
create function business_api.format_number(series text, count bigint) returns text
language sql immutable
as $$ select series || '-' || pg_catalog.lpad(count::text, greatest(4, pg_catalog.length(count::text)), '0') $$;

-- Takes the next number of a series that no record of the same kind has; an existing record keeps its number. The series stays
-- locked until the transaction ends, so that after a rollback the next record gets the number.
create function business_api.next_number(organization_id text, series text, table_name text, record_id text) returns text
language plpgsql volatile
set search_path = ''
as $$
#variable_conflict use_column
declare
  counted bigint;
  known text;
  is_taken boolean;
begin
  insert into business_api.number_series as s (organization_id, series, last) values ($1, $2, 0)
  on conflict (organization_id, series) do update set last = s.last
  returning last into counted;
  -- Read after the lock, so that this statement sees the commit of an earlier try of the same creation.
  execute format('select number from %s where organization_id = $1 and id = $2', table_name) into known using $1, $4;
  if known is not null then
    return known;
  end if;
  counted := counted + 1;
  execute format('select exists (select 1 from %s where organization_id = $1 and number = $2)', table_name)
    into is_taken using $1, business_api.format_number($2, counted);
  if is_taken then
    counted := business_api.first_free_number($1, $2, $3, counted);
  end if;
  update business_api.number_series s set last = counted where s.organization_id = $1 and s.series = $2;
  return business_api.format_number($2, counted);
end
$$;

-- Finds the first free number of a series after `taken`. One statement reads all numbers: a host may have imported a hundred
-- thousand numbers, and one lookup for each would take longer than a statement may.
create function business_api.first_free_number(organization_id text, series text, table_name text, taken bigint)
returns bigint
language plpgsql stable
set search_path = ''
as $$
begin
  return (select min(counts.count) + 1
    from (
      select count, lead(count) over (order by count) as next
        from (
          select substr(number, length($2) + 2)::bigint as count, number
            from (
              select i.number from business_api.invoices i
               where $3 = 'business_api.invoices' and i.organization_id = $1
              union all
              select p.number from business_api.proposals p
               where $3 <> 'business_api.invoices' and p.organization_id = $1
            ) as numbers
           where left(number, length($2) + 1) = $2 || '-' and substr(number, length($2) + 2) ~ '^[0-9]{4,18}$'
        ) as given
       -- A number in another form, such as `INV-2026-00042`, takes no number of the series.
       where count >= taken and number = business_api.format_number($2, count)
    ) as counts
   where counts.next is distinct from counts.count + 1);
end
$$;
