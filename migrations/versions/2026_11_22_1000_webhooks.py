"""Webhooks: whom a tenant has told of what happens, and what is to be sent, written by triggers.

Revision ID: 0031
Revises: 0030

Additions only. The triggers ask for webhooks before anything else: a tenant without one pays a look into an index.
"""

from app.db.migrate import run_script, walls

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

create table webhook (
  tenant_id uuid not null constraint webhook_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, url text not null, description text, events text[] not null,
  secret bytea not null, former_secret bytea, former_until timestamptz,
  enabled boolean not null default true, disabled_reason text,
  failures int not null default 0,      -- attempts that failed since the last that did not
  resting_until timestamptz,            -- nothing is sent before
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  constraint webhook_pkey primary key (tenant_id, id));

-- The outbox, and what became of it. Ids and names of knowledge bases, no content.
create table webhook_delivery (
  tenant_id uuid not null, id uuid not null, webhook_id uuid not null, event text not null, data jsonb not null,
  status text not null default 'pending'
    constraint webhook_delivery_status_check check (status in ('pending', 'delivered', 'dead')),
  attempts int not null default 0, response_status int, reason text, attempted_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint webhook_delivery_pkey primary key (tenant_id, id),
  constraint webhook_delivery_tenant_id_webhook_id_fkey foreign key (tenant_id, webhook_id)
    references webhook on delete cascade);
create index webhook_delivery_tenant_id_webhook_id_created_at_id_idx
  on webhook_delivery (tenant_id, webhook_id, created_at, id);
"""

GRANTS = """
create policy control on webhook for select to carrel_control using (true);
create policy control on webhook_delivery for insert to carrel_control with check (true);
create policy control on tenant_usage for select to carrel_control using (true);
create policy control on usage_day for select to carrel_control using (true);
grant select (tenant_id, id, events, enabled) on webhook to carrel_control;
grant insert (tenant_id, id, webhook_id, event, data) on webhook_delivery to carrel_control;
grant insert on job to carrel_control;
grant select (name) on knowledge_base to carrel_control;
grant select (tenant_id, documents, stored_bytes, chunks) on tenant_usage to carrel_control;
grant select (tenant_id, day, embedding_tokens, query_tokens) on usage_day to carrel_control;
"""

# Triggers run as carrel_control, for some changes are made by its functions; whose rows they are was checked by the
# policies of whoever changed them. The two without a trigger have no rights of their own: they are called by these.
# Each asks first whether anybody is told: by a plan that is kept, since most tenants have no webhook.
TELLING = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- A delivery and its job for each webhook that wants it, in the transaction of the change. A UUIDv7: of version 4, with
-- the milliseconds in front. A job is tried as often as the settings say, which the worker knows.
create function tell_webhooks(p_tenant uuid, p_event text, p_data jsonb) returns void
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  with told as (
    select w.id as webhook_id, encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
             substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
             52, 1), 53, 1), 'hex')::uuid as id
      from webhook w join tenant t on t.id = w.tenant_id and t.deleted_at is null
     where w.tenant_id = p_tenant and w.enabled and p_event = any(w.events)
  ), added as (
    insert into webhook_delivery (tenant_id, id, webhook_id, event, data)
    select p_tenant, o.id, o.webhook_id, p_event, p_data from told o
  )
  insert into job (tenant_id, id, kind, payload, priority, max_attempts)
  select p_tenant, o.id, 'send_webhook', jsonb_build_object('delivery', o.id), 10, 100 from told o;
  if found then perform pg_notify('carrel_job', ''); end if;
end $f$;

create function tell_document() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare base text;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'document.' || new.status = any(w.events)) then return null; end if;
  select k.name into base from knowledge_base k where k.tenant_id = new.tenant_id and k.id = new.kb_id;
  perform tell_webhooks(new.tenant_id, 'document.' || new.status, jsonb_build_object(
    'document', new.id, 'knowledge_base', new.kb_id, 'knowledge_base_name', base, 'version', new.version,
    'status', new.status, 'error', case when new.status = 'failed' then
      jsonb_build_object('code', new.error -> 'code', 'retryable', new.error -> 'retryable') end));
  return null;
end $f$;

-- Those that go with their knowledge base or their tenant are told by that alone.
create function tell_deleted_documents() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare gone record;
begin
  if not exists (select from webhook w where w.tenant_id = (select f.tenant_id from former_rows f limit 1) and w.enabled
                    and 'document.deleted' = any(w.events)) then return null; end if;
  for gone in
    select f.tenant_id, f.id, f.kb_id, f.version, k.name from former_rows f
      join knowledge_base k on k.tenant_id = f.tenant_id and k.id = f.kb_id and k.deleted_at is null
  loop
    perform tell_webhooks(gone.tenant_id, 'document.deleted', jsonb_build_object(
      'document', gone.id, 'knowledge_base', gone.kb_id, 'knowledge_base_name', gone.name, 'version', gone.version,
      'status', 'deleted'));
  end loop;
  return null;
end $f$;

-- Chunking and language change as the next search index takes its place, which is told as that.
create function tell_knowledge_base() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  event text := 'knowledge_base.created';
  unseen text[] := array['updated_at', 'pending_filter', 'chunking', 'language'];
  base text := new.name;
begin
  if tg_op = 'UPDATE' then
    event := 'knowledge_base.updated';
    if old.deleted_at is null and new.deleted_at is not null then
      event := 'knowledge_base.deleted';
      base := old.name;
    elsif new.deleted_at is not null or to_jsonb(old) - unseen = to_jsonb(new) - unseen then
      return null;
    end if;
  end if;
  perform tell_webhooks(new.tenant_id, event, jsonb_build_object(
    'knowledge_base', new.id, 'knowledge_base_name', base));
  return null;
end $f$;

create function tell_reindexed() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare base text;
begin
  select k.name into base from knowledge_base k where k.tenant_id = new.tenant_id and k.id = new.kb_id;
  perform tell_webhooks(new.tenant_id, 'knowledge_base.reindexed', jsonb_build_object(
    'knowledge_base', new.kb_id, 'knowledge_base_name', base));
  return null;
end $f$;
"""

# Told as four fifths are passed: from below to above, so once until it falls below again. Days begin at nothing.
QUOTAS = r"""
create function tell_quota(p_tenant uuid, p_quota text, p_limit numeric, p_used numeric, p_was_near boolean)
returns void
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  if p_used >= p_limit * 0.8 and not p_was_near then
    perform tell_webhooks(p_tenant, 'quota.near', jsonb_build_object(
      'quota', p_quota, 'limit', p_limit, 'used', p_used));
  end if;
end $f$;

create function tell_stored_quotas() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare of_tenant jsonb;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  select t.quotas into of_tenant from tenant t where t.id = new.tenant_id;
  perform tell_quota(new.tenant_id, q.name, (of_tenant ->> q.name)::numeric, q.used,
                     q.before >= (of_tenant ->> q.name)::numeric * 0.8)
     from (values ('documents', old.documents, new.documents), ('stored_bytes', old.stored_bytes, new.stored_bytes),
                  ('chunks', old.chunks, new.chunks)) q(name, before, used)
    where of_tenant ->> q.name is not null and q.used > q.before;
  return null;
end $f$;

-- Keys have rows of their own, and two may grow at once: the lock lets one see what the other has added.
create function tell_daily_quota() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare most numeric; used numeric; added numeric := new.embedding_tokens + new.query_tokens;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  select (t.quotas ->> 'embedding_tokens_per_day')::numeric into most from tenant t where t.id = new.tenant_id;
  if tg_op = 'UPDATE' then added := added - old.embedding_tokens - old.query_tokens; end if;
  if most is null or added <= 0 then return null; end if;
  perform pg_advisory_xact_lock(7303, hashtext(new.tenant_id::text));
  select sum(d.embedding_tokens + d.query_tokens) into used
    from usage_day d where d.tenant_id = new.tenant_id and d.day = new.day;
  perform tell_quota(new.tenant_id, 'embedding_tokens_per_day', most, used, used - added >= most * 0.8);
  return null;
end $f$;

-- A quota that is set lower may be passed by that alone.
create function tell_changed_quotas() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  if not exists (select from webhook w where w.tenant_id = new.id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  perform tell_quota(new.id, q.name, (new.quotas ->> q.name)::numeric, q.used,
                     coalesce(q.used >= (old.quotas ->> q.name)::numeric * 0.8, false))
     from (select u.documents, u.stored_bytes, u.chunks from tenant_usage u where u.tenant_id = new.id) u
    cross join lateral (values ('documents', u.documents), ('stored_bytes', u.stored_bytes), ('chunks', u.chunks))
          q(name, used)
    where new.quotas ->> q.name is not null;
  return null;
end $f$;

reset role;
revoke create on schema public from carrel_control;
"""

TRIGGERS = """
create trigger document_told after update on document for each row
  when (old.status is distinct from new.status and new.status in ('ready', 'failed'))
  execute function tell_document();
create trigger document_gone_told after delete on document referencing old table as former_rows
  for each statement execute function tell_deleted_documents();
create trigger knowledge_base_told after insert or update on knowledge_base
  for each row execute function tell_knowledge_base();
create trigger search_index_told after update on search_index for each row
  when (old.state <> 'live' and new.state = 'live') execute function tell_reindexed();
create trigger tenant_usage_told after update on tenant_usage for each row execute function tell_stored_quotas();
create trigger usage_day_told after insert or update on usage_day
  for each row execute function tell_daily_quota();
create trigger tenant_told after update on tenant for each row
  when (old.quotas is distinct from new.quotas) execute function tell_changed_quotas();

set role carrel_control;
revoke all on function tell_webhooks, tell_document, tell_deleted_documents, tell_knowledge_base,
  tell_reindexed, tell_quota, tell_stored_quotas, tell_daily_quota, tell_changed_quotas from public;
reset role;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("webhook", "webhook_delivery"))
    for script in (GRANTS, TELLING + QUOTAS, TRIGGERS):
        run_script(script)
