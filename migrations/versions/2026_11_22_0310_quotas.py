"""Quotas, rates and usage.

Revision ID: 0020
Revises: 0019

Additions only; find_key tells more, and a process of before takes no notice of it. A tenant without quotas of what is
stored has no row in tenant_usage: its documents are not counted, and none of its uploads waits for another.
"""

from app.db.migrate import run_script, walls

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table tenant add quotas jsonb not null default '{}';
alter table api_key add quotas jsonb not null default '{}';

create table tenant_usage (
  tenant_id uuid not null constraint tenant_usage_tenant_id_fkey references tenant on delete cascade,
  documents bigint not null, stored_bytes bigint not null, chunks bigint not null,
  constraint tenant_usage_pkey primary key (tenant_id)) with (fillfactor = 50);

-- A day (UTC) of a key; all zeros stand for no key: the operator, and what nobody's upload has caused.
create table usage_day (
  tenant_id uuid not null constraint usage_day_tenant_id_fkey references tenant on delete cascade,
  day date not null, key_id uuid not null,
  uploads bigint not null default 0, documents bigint not null default 0, bytes bigint not null default 0,
  chunks bigint not null default 0, searches bigint not null default 0, embedding_tokens bigint not null default 0,
  query_tokens bigint not null default 0,
  constraint usage_day_pkey primary key (tenant_id, day, key_id)) with (fillfactor = 50);

-- Unlogged, for busy tenants write one a second and more: a crash fills the buckets, and no more.
create unlogged table rate_bucket (
  tenant_id uuid not null constraint rate_bucket_tenant_id_fkey references tenant on delete cascade,
  bucket uuid not null, tokens double precision not null, granted double precision not null,
  filled_at timestamptz not null,
  constraint rate_bucket_pkey primary key (tenant_id, bucket)) with (fillfactor = 50);
"""

# A trigger, because documents go on many ways: alone, by filter, by their time, with their knowledge base.
COUNTING = """
-- The lock is shared by all that count; whoever begins to count a tenant's documents has it alone, and so knows what
-- is there: all that others have done is committed, and what they do next they find counted.
create function count_document() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  perform pg_advisory_xact_lock_shared(7302, hashtext(new.tenant_id::text));
  update tenant_usage u
     set documents = u.documents + 1, stored_bytes = u.stored_bytes + new.bytes, chunks = u.chunks + new.chunk_count
   where u.tenant_id = new.tenant_id;
  return null;
end $f$;

create function recount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare grown record;
begin
  for grown in
    select tenant_id, sum(bytes) bytes, sum(chunks) chunks
      from (select tenant_id, bytes, chunk_count::bigint chunks from current_rows
            union all select tenant_id, -bytes, -chunk_count::bigint from former_rows) both_rows
     group by tenant_id having sum(bytes) <> 0 or sum(chunks) <> 0
  loop
    perform pg_advisory_xact_lock_shared(7302, hashtext(grown.tenant_id::text));
    update tenant_usage u set stored_bytes = u.stored_bytes + grown.bytes, chunks = u.chunks + grown.chunks
     where u.tenant_id = grown.tenant_id;
  end loop;
  return null;
end $f$;

create function uncount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare gone record;
begin
  for gone in
    select tenant_id, count(*) documents, sum(bytes) bytes, sum(chunk_count) chunks from former_rows group by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(7302, hashtext(gone.tenant_id::text));
    update tenant_usage u
       set documents = u.documents - gone.documents, stored_bytes = u.stored_bytes - gone.bytes,
           chunks = u.chunks - gone.chunks
     where u.tenant_id = gone.tenant_id;
  end loop;
  return null;
end $f$;
revoke all on function count_document, recount_documents, uncount_documents from public;

create trigger document_added after insert on document for each row execute function count_document();
-- Of whole statements, for one may change or remove thousands: each row by itself would write the same row anew.
create trigger document_grown after update on document referencing old table as former_rows new table as current_rows
  for each statement execute function recount_documents();
create trigger document_gone after delete on document referencing old table as former_rows
  for each statement execute function uncount_documents();
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

drop function find_key(bytea);
create function find_key(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              user_id text, expires_at timestamptz, quotas jsonb, key_quotas jsonb)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.user_id, k.expires_at, t.quotas, k.quotas
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null
$f$;

revoke all on function find_key from public;
grant execute on function find_key to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("tenant_usage", "usage_day", "rate_bucket"))
    run_script(COUNTING)
    run_script(FUNCTIONS)
