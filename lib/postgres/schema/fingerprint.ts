import { type Catalogue, parseCatalogue } from './catalogue.ts'

/** The schema that the migrations of this version make. */
export interface SchemaFingerprint {
  /** Number of the newest migration. */
  readonly migration: number
  readonly objects: Catalogue
}

/** Written by test/postgres/fingerprint.test.ts with UPDATE_SCHEMA=1; without the variable, the test compares. */
export const SCHEMA_FINGERPRINT: SchemaFingerprint = {
  migration: 1,
  objects: parseCatalogue(`
column api_keys.|burst=bec111850cf2|created_at=60019a7f1daa|digest=0415511659f8|expires_at=b93ebeb571bf|expiry_noticed=b93ebeb571bf|expiry_noticed_by=9299932d5f23|id=0415511659f8|last_four=cafe39a033bf|last_used_at=b93ebeb571bf|name=cafe39a033bf|organization_id=0415511659f8|per_second=c5884cab5882|prefix=cafe39a033bf|revoked_at=b93ebeb571bf|scopes=fe6de9eea6f6|successor_id=9299932d5f23
column api_requests.|at=60019a7f1daa|day=2162cfea635a|duration_ms=c0ab17b37a89|error=d06b30f1f1ef|id=0415511659f8|is_replay=b6c6cc4ec805|key_id=0415511659f8|method=cafe39a033bf|organization_id=0415511659f8|path=cafe39a033bf|route=cafe39a033bf|status=2162cfea635a
column audit_entries.|action=cafe39a033bf|actor=d06b30f1f1ef|changed_at=60019a7f1daa|details=750ae6cf6575|id=0415511659f8|organization_id=0415511659f8|subject_id=0415511659f8
column businesses.|category=d06b30f1f1ef|changed_xid=bff74eb36c92|city=d06b30f1f1ef|client_id=9299932d5f23|client_status=d06b30f1f1ef|converted_at=b93ebeb571bf|email=d06b30f1f1ef|id=0415511659f8|latest_changes=a0d2d8097a42|monthly_revenue=aae5c7ee9a79|name=cafe39a033bf|organization_id=0415511659f8|phone=d06b30f1f1ef|representation=ce098a659d3e|total_revenue=aae5c7ee9a79|updated_at=1b279d7afa79
column delivery_attempts.|body_excerpt=cafe39a033bf|connect_ms=5d2bfca20d4d|delivery_id=0415511659f8|dns_ms=5d2bfca20d4d|duration_ms=c0ab17b37a89|error=d06b30f1f1ef|first_byte_ms=5d2bfca20d4d|headers=24ef2499b20d|location=d06b30f1f1ef|number=3f9165f799b9|organization_id=0415511659f8|started_at=60019a7f1daa|status=bec111850cf2|tls_ms=5d2bfca20d4d
column delivery_filter.|endpointId=d06b30f1f1ef|eventId=d06b30f1f1ef|since=b93ebeb571bf|states=5d0f33744be9|subjectId=d06b30f1f1ef|type=d06b30f1f1ef|until=b93ebeb571bf
column ended_attempt.|created_at=b93ebeb571bf|duration_ms=5d2bfca20d4d|endpoint_id=d06b30f1f1ef|error=d06b30f1f1ef|organization_id=d06b30f1f1ef|outcome=d06b30f1f1ef|status=bec111850cf2
column endpoint_activity.|counts=6d7e6dc74d5d|endpoint_id=0415511659f8|hour=60019a7f1daa|organization_id=0415511659f8|slot=2162cfea635a
column endpoint_rates.|accepted=767a7bf880ea|ceiling=c5884cab5882|endpoint_id=0415511659f8|next_at=54ff0ef01fe0|organization_id=0415511659f8|probe_id=9299932d5f23|probe_token=9299932d5f23|rate=c5884cab5882|rejected_at=54ff0ef01fe0|wait_ms=bf4c4e6f5bb1|waited_ms=bf4c4e6f5bb1
column event_days.|begins=0415511659f8|begins_at=60019a7f1daa|checked_at=b93ebeb571bf|dropped_at=b93ebeb571bf|ends=0415511659f8|ends_at=60019a7f1daa|name=cafe39a033bf|organization_id=338b0c07aa42|retained_for=24ef2499b20d
column event_ids.|delivery_prefix=0415511659f8|id=0415511659f8|organization_id=0415511659f8
column event_limits.|max_body_bytes=3f9165f799b9|organization_id=338b0c07aa42
column event_types.|organization_id=338b0c07aa42|subject=d06b30f1f1ef|type=0415511659f8
column events.|body=cafe39a033bf|delivery_prefix=0415511659f8|id=0415511659f8|only_endpoint_id=9299932d5f23|organization_id=0415511659f8|subject_id=9299932d5f23|traceparent=d06b30f1f1ef|type=cafe39a033bf
column finished_deliveries.|attempts=767a7bf880ea|created_at=60019a7f1daa|endpoint_id=0415511659f8|event_id=0415511659f8|finished_at=60019a7f1daa|id=0415511659f8|is_backfill=ba9b67b2048e|organization_id=0415511659f8|reason=d06b30f1f1ef|state=cafe39a033bf|type=cafe39a033bf
column idempotency_keys.|expires_at=60019a7f1daa|fingerprint=0415511659f8|key=0415511659f8|operation=0415511659f8|organization_id=0415511659f8|record_id=0415511659f8|reply=cafe39a033bf
column installation.|identity=cafe39a033bf|name=d06b30f1f1ef|organization_id=338b0c07aa42
column invoices.|amount_paid=f8d80ff33a75|changed_xid=bff74eb36c92|currency=cafe39a033bf|due_date=60019a7f1daa|id=0415511659f8|issue_date=60019a7f1daa|latest_changes=a0d2d8097a42|minor_units=2162cfea635a|number=cafe39a033bf|organization_id=0415511659f8|representation=82000d622732|status=cafe39a033bf|total=f8d80ff33a75|updated_at=1b279d7afa79
column leads.|business_id=0415511659f8|changed_xid=bff74eb36c92|created_at=60019a7f1daa|expected_value=aae5c7ee9a79|id=0415511659f8|latest_changes=a0d2d8097a42|lead_score=aae5c7ee9a79|organization_id=0415511659f8|representation=7e93fe12fb9a|score_band=d06b30f1f1ef|stage=cafe39a033bf|updated_at=1b279d7afa79
column logged_delivery.|attempts=bec111850cf2|created_at=b93ebeb571bf|due_at=b93ebeb571bf|endpoint_id=9299932d5f23|event_id=9299932d5f23|finished_at=b93ebeb571bf|id=9299932d5f23|organization_id=9299932d5f23|reason=d06b30f1f1ef|state=d06b30f1f1ef|type=d06b30f1f1ef
column migrations.|applied_at=1b279d7afa79|breaking=b6c6cc4ec805|id=3f9165f799b9|name=cafe39a033bf
column number_series.|last=9445c8482dbb|organization_id=0415511659f8|series=0415511659f8
column open_deliveries.|attempts=767a7bf880ea|attempts_before=767a7bf880ea|claim_token=d06b30f1f1ef|claimed_at=b93ebeb571bf|created_at=1b279d7afa79|due_at=60019a7f1daa|endpoint_id=0415511659f8|event_id=0415511659f8|id=0415511659f8|is_backfill=ba9b67b2048e|is_backing_off=ba9b67b2048e|lease_until=b93ebeb571bf|organization_id=0415511659f8|priority=35504ba00232|type=cafe39a033bf
column organization_limits.|burst=3f9165f799b9|organization_id=0415511659f8|per_second=23a39d65b792
column payments.|amount=f8d80ff33a75|id=0415511659f8|invoice_id=0415511659f8|organization_id=0415511659f8|received_at=60019a7f1daa|reversed_by=9299932d5f23
column projects.|billing_type=cafe39a033bf|changed_xid=bff74eb36c92|id=0415511659f8|latest_changes=a0d2d8097a42|name=cafe39a033bf|organization_id=0415511659f8|representation=4d97cabbc04f|status=cafe39a033bf|updated_at=1b279d7afa79|value=9707b7b7a003
column proposals.|changed_xid=bff74eb36c92|currency=cafe39a033bf|id=0415511659f8|latest_changes=a0d2d8097a42|minor_units=f26977c4f93e|monthly_total=9707b7b7a003|number=cafe39a033bf|organization_id=0415511659f8|representation=9b9b5656cdc7|signed_at=b93ebeb571bf|signed_by=d06b30f1f1ef|status=cafe39a033bf|title=cafe39a033bf|total=9707b7b7a003|updated_at=1b279d7afa79|version=3f9165f799b9
column purge_progress.|cursor=b3d0ff6b4d8e|organization_id=338b0c07aa42|paused_until=54ff0ef01fe0|purged_at=b93ebeb571bf|retention_ms=272dbcf4f5f9|second_cursor=24ef2499b20d|second_pass_at=54ff0ef01fe0
column rate_buckets.|bucket=0415511659f8|full_at=23a39d65b792|organization_id=0415511659f8
column settings_turns.|organization_id=0415511659f8|turn=9445c8482dbb
column shard_places.|is_here=d972d2dee62d|name=0415511659f8|organization_id=338b0c07aa42|slot=1790be535d8b|slots=5d0f33744be9|version=9445c8482dbb
column webhook_endpoints.|created_at=60019a7f1daa|description=0fff02a3acaf|disabled_reason=d06b30f1f1ef|failing_since=b93ebeb571bf|failures=767a7bf880ea|header_names=8a9301a25e89|id=0415511659f8|max_per_second=c5884cab5882|noticed_attempt=9299932d5f23|organization_id=0415511659f8|previous_sealed_secret=d06b30f1f1ef|previous_secret_expires_at=b93ebeb571bf|sealed_headers=d06b30f1f1ef|sealed_secret=d06b30f1f1ef|secret_expiry_noticed=b93ebeb571bf|secret_expiry_noticed_by=9299932d5f23|standard_webhooks=ba9b67b2048e|state=cafe39a033bf|types=5d0f33744be9|url=cafe39a033bf|version=767a7bf880ea
constraint api_keys.|api_keys_burst_check=a3349dedc5b0|api_keys_digest_key=5f622af8cc9e|api_keys_pkey=1a29056265b9
constraint api_requests.|api_requests_pkey=8269735bf9c8
constraint audit_entries.|audit_entries_pkey=1a29056265b9
constraint businesses.|businesses_client_id_check=4c362f2ae951|businesses_monthly_revenue_check=e012db835d7a|businesses_pkey=1a29056265b9|businesses_total_revenue_check=c8fa25807dc9
constraint delivery_attempts.|delivery_attempts_pkey=545962ed77fb
constraint endpoint_activity.|endpoint_activity_pkey=dc7608cbc400
constraint endpoint_rates.|endpoint_rates_pkey=793db918d1c3
constraint event_days.|event_days_organization_id_check=6f34b39d604d|event_days_pkey=787472166460
constraint event_ids.|event_ids_pkey=1a29056265b9
constraint event_limits.|event_limits_max_body_bytes_check=fc5bcd0a5161|event_limits_organization_id_check=6f34b39d604d|event_limits_pkey=b56cabea1aae
constraint event_types.|event_types_organization_id_check=6f34b39d604d|event_types_pkey=addca8259412|event_types_type_check=d278985c2b08
constraint events.|events_pkey=2dbd9714db4e
constraint finished_deliveries.|finished_deliveries_pkey=1a29056265b9|finished_deliveries_state_check=c8d54f2ee8e0
constraint idempotency_keys.|idempotency_keys_pkey=07c4cc6e2982
constraint installation.|installation_organization_id_check=6f34b39d604d|installation_pkey=b56cabea1aae
constraint invoices.|invoices_amount_paid_check=8188b4f8fe2e|invoices_minor_units_check=f853e6dc51e4|invoices_organization_id_number_key=23c217fe807b|invoices_pkey=1a29056265b9|invoices_total_check=e98b1aede6a5
constraint leads.|leads_expected_value_check=52ddd3448ded|leads_lead_score_check=8d4b8de85587|leads_organization_id_business_id_fkey=c35fbae6a5be|leads_pkey=1a29056265b9
constraint migrations.|migrations_pkey=8c8464f42472
constraint number_series.|number_series_pkey=7fd926267112
constraint open_deliveries.|open_deliveries_pkey=1a29056265b9
constraint organization_limits.|organization_limits_burst_check=e2fb66188d6c|organization_limits_pkey=b56cabea1aae
constraint payments.|payments_amount_check=8430b1319064|payments_organization_id_invoice_id_fkey=5178c8cf629e|payments_pkey=1a29056265b9
constraint projects.|projects_pkey=1a29056265b9|projects_value_check=61b882450d21
constraint proposals.|proposals_minor_units_check=f853e6dc51e4|proposals_monthly_total_check=fd63790667fc|proposals_organization_id_number_key=23c217fe807b|proposals_pkey=1a29056265b9|proposals_signed_at_check=4173969c08c3|proposals_total_check=199582c56cc8|proposals_version_check=073a21bed5ad
constraint purge_progress.|purge_progress_organization_id_check=6f34b39d604d|purge_progress_pkey=b56cabea1aae
constraint rate_buckets.|rate_buckets_pkey=01f37d33ed91
constraint settings_turns.|settings_turns_pkey=b56cabea1aae
constraint shard_places.|shard_places_pkey=315f0575b2a9|shard_places_slots_check=51df5ae73fa1
constraint webhook_endpoints.|webhook_endpoints_pkey=1a29056265b9|webhook_endpoints_state_check=389e2a25dc5d
|function backfill_part(organization_id text, endpoint_id text, type text, template text, record_limit integer, records jsonb, entry jsonb)=b7b85bbff3f3
|function business_representation(id text, name text, category text, city text, email text, phone text)=31c7049527e9
|function cancel_pending_part(first_block bigint, entry jsonb)=168a0bf6711a
|function check_installation(given text, adopts boolean)=1d9876d86ba1
|function claim_deliveries(token text, is_repeat boolean, claim_limit integer, byte_budget integer, endpoint_limit integer, after_organization text, after_endpoint text, lease_ms double precision, max_attempts integer, endpoint_budget integer, organization_budget integer, endpoint_budgets jsonb, organization_budgets jsonb)=8abd4bc46b75
|function client_representation(id text, status text, total_revenue numeric, monthly_revenue numeric, converted_at timestamp with time zone, business text)=57d0bde305be
|function continue_purge(retention_ms double precision, part_limit integer, share double precision)=d7753eabc4b6
|function count_activity(attempts business_api.ended_attempt[])=82f311552cb8
|function count_api_keys_in_force(organization_id text, at_time timestamp with time zone)=d07a3a24d1c4
|function count_in_entry(organization_id text, entry jsonb, name text, added bigint)=968d7910efab
|function count_queue(organization_id text, endpoint_id text, count_max integer)=c19105ace6fe
|function database_identity()=83efd122a0e2
|function day_bound(at_time timestamp with time zone)=1bfad28c4432
|function day_grace_ms(retention_ms double precision)=e765db73da64
|function day_width(retention_ms double precision)=82518cb3c2e0
|function days_end(at_time timestamp with time zone)=deefab2aa4f9
|function delete_left_part(organization_id text, part_limit integer, after jsonb, record_tables text[])=2802f22e464d
|function delete_organization_part(organization_id text, part_limit integer, after jsonb, record_tables text[])=557b3587ec2d
|function deliveries_of_event(organization_id text, event_id text, delivery_prefix text)=494725732b94
|function deliveries_of_events(organization_id text, event_ids text[], delivery_prefixes text[])=8c62c3b228e6
|function delivery_details(organization_id text, delivery_ids text[], event_ids text[])=52f815773e91
|function delivery_digits(at_time timestamp with time zone)=a1982ec8c4fc
|function end_attempts(results jsonb, places tid[], at_time timestamp with time zone, OUT written text[], OUT outcomes jsonb, OUT failed jsonb, OUT attempts business_api.ended_attempt[])=c0c83d44c483
|function endpoint_target(endpoint business_api.webhook_endpoints, at_time timestamp with time zone)=571cf25b6c17
|function ensure_day(at_time timestamp with time zone)=93c9845109e7
|function erase_ended_secrets(part_limit integer)=7fcc5a77c16a
|function event_subjects()=a90e3cfc6b01
|function events_of_record(organization_id text, id_or_number text)=184cc7d04dbb
|function events_of_subject(organization_id text, subject_id text)=d144c3fc412f
|function find_events(organization_id text, ids text[])=069928de5189
|function find_open_delivery(begins text, ends text)=f87c84d01656
|function fit_bodies(sizes bigint[], byte_limit integer, byte_budget integer, OUT unread_places bigint[], OUT cut integer)=2fcefd888776
|function forbid_plans(function_name text, VARIADIC more text[])=3548fc26afc8
|function forget_business_in(body text, business_id text, forgotten jsonb)=503395524c08
|function forget_business_part(organization_id text, business_id text, forgotten jsonb, part_limit integer, after jsonb, types_without_business text[])=b0102d8ef363
|function format_number(series text, count bigint)=9a0f7bbc781c
|function hold_deliveries(places tid[], token text, claimed_at timestamp with time zone, lease_until timestamp with time zone)=3831eeabeaa7
|function id_time(id text)=07a5443d6cd2
|function import_records(organization_id text, records jsonb, steps jsonb)=09f65a33e669
|function insert_api_key(organization_id text, new_key jsonb, key_limit integer)=d59950988f09
|function insert_endpoint(organization_id text, new_endpoint jsonb, endpoint_limit integer)=1e00e3bdbfae
|function insert_events(organization_id text, events jsonb)=d7ffbd24e571
|function invoice_representation(id text, number text, status text, currency text, minor_units integer, issue_date timestamp with time zone, due_date timestamp with time zone, total numeric, amount_paid numeric)=66cd76e47dfd
|function is_change_made(organization_id text, subject_id text, change_id text)=0ddb3e7754f0
|function is_recorded(organization_id text, entry_id text)=f77a2a5f7ce1
|function is_selected(f business_api.delivery_filter, d business_api.logged_delivery)=4bd421bc7a14
|function judge(digests text[], wanted integer[], key_rates double precision[], key_bursts double precision[], organization_rates double precision[], organization_bursts double precision[], organization_hints text[], may_wait boolean)=d51a40300a9a
|function judge_endpoint(organization_id text, outcome jsonb, at_time timestamp with time zone, failure_limit integer, failing_ms double precision)=6dbf45509ab5
|function judge_rate(outcome jsonb, at_time timestamp with time zone)=206db0dfd45c
|function late_day_ms(retention_ms double precision)=cf3d7fedc8fd
|function lead_representation(id text, stage text, lead_score numeric, score_band text, expected_value numeric, created_at timestamp with time zone)=8a37fc4d0bcd
|function list_api_requests(organization_id text, filter jsonb, page_limit integer, before text)=326b6aec2ab3
|function list_deliveries_of_subject(organization_id text, filter jsonb, first_id text, end_id text, row_limit integer)=ec5579d49584
|function list_events(organization_id text, type text, first_prefix text, end_prefix text, before_id text, page_limit integer, inspected_limit integer, subject_id text)=73a7702d2758
|function list_events_since(organization_id text, after_prefix text, row_limit integer)=cc0372a62552
|function list_finished_deliveries(organization_id text, filter jsonb, first_id text, end_id text, row_limit integer, is_recoverable boolean)=0ff19efc30b7
|function list_open_deliveries(organization_id text, filter jsonb, first_id text, end_id text, row_limit integer)=7f00ca8ee6a1
|function literals_of(key jsonb)=a60f6abe1127
|function lock_move(organization_id text)=994cdd1caafc
|function log_api_requests(requests json)=ef3fb9ba54c1
|function log_finished(d business_api.finished_deliveries)=751fcd44ce56
|function log_open(d business_api.open_deliveries)=047055f9ff2a
|function make_day(name text, begins_at timestamp with time zone, ends_at timestamp with time zone)=3a4ed0da3bfa
|function make_days()=c56efb7ebe99
|function make_days_ahead()=69f5be9a990b
|function make_days_between(begins_at timestamp with time zone, ends_at timestamp with time zone)=27a13d4e7558
|function new_id(kind text)=08d194490349
|function next_number(organization_id text, series text, table_name text, record_id text)=0af9f6ce969d
|function organization_tables(record_tables text[])=ffad8e8584a0
|function pick_deliveries(organization text, endpoint text, budget integer, token text, at_time timestamp with time zone, OUT ids text[], OUT events text[], OUT places tid[], OUT later jsonb, OUT turn_at timestamp with time zone)=275a15ae76b6
|function project_representation(id text, name text, status text, billing_type text, value numeric)=4233ebe63504
|function promote_due_retries(at_time timestamp with time zone)=e5ba1d267f10
|function proposal_representation(id text, number text, title text, status text, version integer, total numeric, monthly_total numeric, currency text)=680c176864ea
|function publish_event(organization_id text, type text, data json, id text, traceparent text)=7588ad63b1ab
|function publish_event(organization_id text, type text, data jsonb, id text, traceparent text)=b998238d2d14
|function publish_event(organization_id text, type text, data text, id text, traceparent text)=c3a37deb1405
|function published_at(delivery_prefix text)=2bad51847209
|function purge_activity(row_limit integer)=0e10234fe719
|function purge_api_requests()=d6e0901f201f
|function purge_days(retention_ms double precision, part_limit integer)=3d9d605f5546
|function purge_events(old_before timestamp with time zone, place jsonb, event_limit integer, entry jsonb)=d337de9f7655
|function purge_idempotency_keys(expired_from timestamp with time zone, key_limit integer, OUT purged integer, OUT latest timestamp with time zone)=fec4a6a9843f
|function purge_lag(retention_ms double precision, cursor jsonb)=6682ec50a70d
|function purge_part(retention_ms double precision, cursor jsonb, part_limit integer, has_endpoints boolean, entry jsonb)=70b270dea5c2
|function purge_removed_endpoints(place jsonb, endpoint_limit integer)=64e0cfd8bb06
|function rate_allowance(organization text, endpoint text, max_per_second double precision, budget integer, at_time timestamp with time zone, OUT allowance integer, OUT turn_at timestamp with time zone)=d7a87f0d264e
|function read_activity(organization_id text, endpoint_id text, begins timestamp with time zone, ends timestamp with time zone, interval_name text)=7a252a9ed970
|function read_api_requests(requests json)=4108fd2cc5a5
|function read_claims(claims jsonb)=7f5e81d8164c
|function read_deliveries(organizations text[], ids text[])=45a655f96b91
|function recall_attempt_results(results jsonb, written text[], failure_limit integer)=bb7145eb77ed
|function reclaim_expired_leases(max_attempts integer)=91871cfe305d
|function reclaim_lease(organization_id text, id text, at_time timestamp with time zone, max_attempts integer, OUT failed jsonb, OUT attempt business_api.ended_attempt)=d5baae22e333
|function record_ids(organization_id text, id_or_number text)=a9ff75559e32
|function record_test(organization_id text, entry jsonb, test_limit integer, window_ms double precision)=eb6f93e52bc6
|function redeliver_event(organization_id text, event_id text, endpoint_id text, entry jsonb)=7fc58a49974e
|function reject_elsewhere(organization_id text)=12061b1eb1b6
|function release_deliveries(claims jsonb)=0eef303264f4
|function render_events(events jsonb, record json, more json)=cd9572be0092
|function render_template(template text, record json, more json)=285cedff59c3
|function reopen_deliveries(organization_id text, ids text[], filter jsonb, delivery_limit integer, entry jsonb)=18069adb2112
|function report_results(results jsonb, written text[], outcomes jsonb[], failed jsonb, at_time timestamp with time zone, failure_limit integer, failing_ms double precision)=f6d70875a65d
|function retained_deliveries()=250744daa8fe
|function rotate_api_key(organization_id text, key_id text, successor jsonb, overlap_ms double precision, key_limit integer)=715aa55e381f
|function scan_due_deliveries(pick_limit integer, endpoint_limit integer, after_organization text, after_endpoint text, endpoint_budget integer, organization_budget integer, endpoint_budgets jsonb, organization_budgets jsonb, claimed_organizations text[], claimed_endpoints text[], token text, at_time timestamp with time zone, OUT organizations text[], OUT ids text[], OUT endpoints text[], OUT events text[], OUT places tid[], OUT turn_at timestamp with time zone, OUT here_organization text, OUT here_endpoint text, OUT is_complete boolean)=7779dc19915a
|function shard_place(first jsonb, told jsonb)=32161900c0c9
|function skip_pending(organization_id text, endpoint_id text)=d6948ab232da
|function spend_rate(organization text, endpoint text, max_per_second double precision, ids text[], token text, at_time timestamp with time zone)=b7f1ee79562e
|function table_identity(table_name text)=b3ae3bcc496c
|function tables_of_day(name text)=ce0ed82a7b0a
|function take_settings_turn(organization_id text)=179d60bb18af
|function unlisted_days()=92f821e54170
|function write_attempt_results(results jsonb, failure_limit integer, failing_ms double precision)=a26d1e4c3221
index api_|keys_expires_at_idx=f88eb4d62f85|requests_at_idx=b6ad55dc240c
index audit_|entries_action_idx=16fbe8ee2856|entries_actor_idx=403a6783493a|entries_subject_idx=d09f32470406|entries_tests_idx=170061cb8ebe
index businesses_|organization_id_changed_xid_client_id_idx=3d2a19b6d4b5|organization_id_client_id_idx=1f2cdbac9945|organization_id_client_status_client_id_idx=b28aa9e88c1a|organization_id_updated_at_client_id_idx=8d3746eb3038
index endpoint_|activity_hour_idx=61af692b4a3e
index event_|ids_delivery_prefix_idx=96af22c2d109
index events_|delivery_prefix_idx=46fb898dcf06|log_idx=3013c37ee64d|subject_idx=da9ac73618ee
index finished_|deliveries_recoverable_idx=9cbae24c292d|deliveries_state_idx=1644f97113b2|deliveries_type_idx=f1df1cdd996d
index idempotency_|keys_expires_at_idx=de1891ae967b
index invoices_|due_date_idx=367a9f5e7233|organization_id_changed_xid_id_idx=b7ffa7442508|organization_id_due_date_idx=00309a300240|organization_id_status_due_date_id_idx=9d2ea0dbfae5|organization_id_status_id_idx=eacd2878cbe4|organization_id_updated_at_id_idx=b7749837eec3
index leads_|organization_id_business_id_id_idx=2d5178043927|organization_id_changed_xid_id_idx=3bfebc7c64d6|organization_id_stage_id_idx=a70c24c0050c|organization_id_updated_at_id_idx=303340a35c1b
index open_|deliveries_backing_off_idx=cc2592b764da|deliveries_backing_off_log_idx=7bd68dd14432|deliveries_due_idx=90b71e17d8e8|deliveries_lease_until_idx=1ee6bb43ff76
index payments_|organization_id_invoice_id_id_idx=b32b13e659c4
index projects_|organization_id_changed_xid_id_idx=bbcb718fa5b8|organization_id_status_id_idx=e9ef7505a5db|organization_id_updated_at_id_idx=e95fc6fc9955
index proposals_|organization_id_changed_xid_id_idx=6f1418ef3e7c|organization_id_status_id_idx=85ee7e1d1e84|organization_id_updated_at_id_idx=786ad91f6d08
index shard_|places_slot_idx=9825859e52e8
index webhook_|endpoints_previous_secret_expires_at_idx=5811d7863811|endpoints_removed_idx=09f63ce6fecd
table |api_keys=e7dde70d4645|api_requests=fe300c1b6a2f|audit_entries=e7dde70d4645|businesses=e7dde70d4645|delivery_attempts=e8eb39553230|endpoint_activity=e7dde70d4645|endpoint_rates=e7dde70d4645|event_days=e7dde70d4645|event_ids=e7dde70d4645|event_limits=e7dde70d4645|event_types=e7dde70d4645|events=c1054ae16d28|finished_deliveries=5a86c5368d7a|idempotency_keys=e7dde70d4645|installation=e7dde70d4645|invoices=e7dde70d4645|leads=e7dde70d4645|migrations=e7dde70d4645|number_series=e7dde70d4645|open_deliveries=e7dde70d4645|organization_limits=e7dde70d4645|payments=e7dde70d4645|projects=e7dde70d4645|proposals=e7dde70d4645|purge_progress=e7dde70d4645|rate_buckets=ea96d5f9c756|settings_turns=e7dde70d4645|shard_places=e7dde70d4645|webhook_endpoints=e7dde70d4645
type |delivery_filter=85747f9d68bc|ended_attempt=85747f9d68bc|logged_delivery=85747f9d68bc
`),
}
