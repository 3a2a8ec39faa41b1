-- Invoices and payments. Amounts are numeric and computed by the database, never in floating point. minor_units is the
-- currency's decimal places at the time of writing, so "900" JPY and "1250.000" TND are returned as written.

create function business_api.invoice_representation(
  id text, number text, status text, currency text, minor_units integer, issue_date timestamptz, due_date timestamptz,
  total numeric, amount_paid numeric
) returns text
language plpgsql immutable
set search_path = ''
as $$
begin
  return '{"id":' || to_json(id)::text
    || ',"number":' || to_json(number)::text
    || ',"status":' || to_json(status)::text
    || ',"currency":' || to_json(currency)::text
    || ',"issueDate":' || coalesce(
      to_json(to_char(issue_date at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || ',"dueDate":' || coalesce(
      to_json(to_char(due_date at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text, 'null'
    )
    || ',"total":"' || round(total, minor_units)::text
    || '","amountPaid":"' || round(amount_paid, minor_units)::text
    || '","amountDue":"' || round(total - amount_paid, minor_units)::text
    || '"}';
end
$$;

create table business_api.invoices (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  number text not null,
  status text not null,
  currency text not null,
  minor_units smallint not null,
  issue_date timestamptz not null,
  due_date timestamptz not null,
  total numeric not null,
  amount_paid numeric not null,
  latest_changes text[] collate "C" not null default '{}',
  changed_xid xid8 not null default pg_current_xact_id(),
  updated_at timestamptz not null default now(),
  representation text not null generated always as (
    business_api.invoice_representation(
      id, number, status, currency, minor_units, issue_date, due_date, total, amount_paid
    )
  ) stored,
  constraint invoices_pkey primary key (organization_id, id),
  constraint invoices_organization_id_number_key unique (organization_id, number),
  constraint invoices_minor_units_check check (minor_units between 0 and 4),
  constraint invoices_total_check check (total >= 0 and total < 1e15 and total = round(total, minor_units)),
  constraint invoices_amount_paid_check
    check (amount_paid >= 0 and amount_paid <= total and amount_paid = round(amount_paid, minor_units))
);

create index invoices_organization_id_changed_xid_id_idx on business_api.invoices (organization_id, changed_xid, id);

create index invoices_organization_id_updated_at_id_idx on business_api.invoices (organization_id, updated_at, id);

-- For invoices that may become overdue, across organizations or for one of them.
create index invoices_due_date_idx on business_api.invoices (due_date) where status in ('issued', 'partially_paid');

create index invoices_organization_id_due_date_idx
  on business_api.invoices (organization_id, due_date) where status in ('issued', 'partially_paid');

create index invoices_organization_id_status_id_idx on business_api.invoices (organization_id, status, id);

-- For unpaid invoices by due date.
create index invoices_organization_id_status_due_date_id_idx
  on business_api.invoices (organization_id, status, due_date, id)
  where status in ('issued', 'partially_paid', 'overdue');

-- A reversal is a row with a negative amount.
create table business_api.payments (
  organization_id text collate "C" not null,
  id text collate "C" not null,
  invoice_id text collate "C" not null,
  amount numeric not null,
  received_at timestamptz not null,
  -- ID of the payment's reversal.
  reversed_by text collate "C",
  constraint payments_pkey primary key (organization_id, id),
  constraint payments_amount_check check (amount <> 0),
  constraint payments_organization_id_invoice_id_fkey
    foreign key (organization_id, invoice_id) references business_api.invoices (organization_id, id)
);

create index payments_organization_id_invoice_id_id_idx on business_api.payments (organization_id, invoice_id, id);
