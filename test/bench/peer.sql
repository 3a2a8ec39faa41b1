create schema peer;
create table peer.api_keys (organization_id text, digest text primary key, scopes text[], per_second float8, burst int, revoked_at timestamptz, expires_at timestamptz);
create unlogged table peer.rate_buckets (digest text primary key, tokens float8, at timestamptz) with (fillfactor = 50);
create table peer.businesses (organization_id text, id text, name text, category text, city text, email text, phone text, primary key (organization_id, id));
create table peer.clients (organization_id text, id text, business_id text, status text, total_revenue numeric(15, 3), monthly_revenue numeric(15, 3), converted_at timestamptz, primary key (organization_id, id), foreign key (organization_id, business_id) references peer.businesses (organization_id, id));
create table peer.idempotency_keys (organization_id text, key text, reply jsonb, primary key (organization_id, key));
create table peer.endpoints (organization_id text, id text, url text, enabled boolean, primary key (organization_id, id));
create table peer.events (organization_id text, id text, type text, body jsonb, created_at timestamptz default now(), primary key (organization_id, id));
create table peer.deliveries (id bigserial primary key, organization_id text, event_id text, endpoint_id text, state text default 'pending', attempts int default 0, due_at timestamptz default now(), foreign key (organization_id, event_id) references peer.events (organization_id, id));
create index on peer.deliveries (due_at) where state = 'pending';
insert into peer.api_keys select organization_id, digest, scopes, coalesce(per_second, 10), coalesce(burst, 100) from business_api.api_keys;
insert into peer.businesses select organization_id, id, name, category, city, email, phone from business_api.businesses;
insert into peer.clients
select organization_id, client_id, id, client_status, total_revenue, monthly_revenue, converted_at from business_api.businesses where client_id is not null;
insert into peer.endpoints select organization_id, id, url, true from business_api.webhook_endpoints;
