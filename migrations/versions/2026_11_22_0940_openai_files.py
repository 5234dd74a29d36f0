"""Files that are kept before they are documents, batches of them, and a caller's labels on knowledge bases.

Revision ID: 0029
Revises: 0028

Additions only. A process of before takes no notice of them; its sweeper takes a kept file's original for an orphan, so
that files are uploaded when all processes are of this version.
"""

from app.db.migrate import run_script, walls

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

create table openai_file (
  tenant_id uuid not null constraint openai_file_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, key_id uuid, quota_key_id uuid, filename text not null, media_type text, bytes bigint not null, sha256 bytea not null,
  key text not null, purpose text not null, expires_at timestamptz, created_at timestamptz not null default now(),
  constraint openai_file_pkey primary key (tenant_id, id));

create table openai_store (
  tenant_id uuid not null, kb_id uuid not null, metadata jsonb not null default '{}',
  constraint openai_store_pkey primary key (tenant_id, kb_id),
  constraint openai_store_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade);

create table openai_file_batch (
  tenant_id uuid not null, id uuid not null, kb_id uuid not null, key_id uuid, cancelled integer not null default 0,
  cancelled_at timestamptz, created_at timestamptz not null default now(),
  constraint openai_file_batch_pkey primary key (tenant_id, id),
  constraint openai_file_batch_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade);
create index openai_file_batch_kb_idx on openai_file_batch (tenant_id, kb_id);

-- A file of a batch: the document that it was made, or why it was refused.
create table openai_batch_file (
  tenant_id uuid not null, batch_id uuid not null, ordinal integer not null, file_id uuid not null,
  kb_id uuid not null, document_id uuid, error jsonb,
  constraint openai_batch_file_pkey primary key (tenant_id, batch_id, ordinal),
  constraint openai_batch_file_tenant_id_batch_id_fkey foreign key (tenant_id, batch_id)
    references openai_file_batch (tenant_id, id) on delete cascade,
  constraint openai_batch_file_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade);
create index openai_batch_file_document_idx on openai_batch_file (tenant_id, document_id);
"""

# As documents are counted (0020, 0025), in the same sums and under the same lock.
COUNTING = """
create function count_kept_file() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  file openai_file := case tg_op when 'INSERT' then new else old end;
  more bigint := case tg_op when 'INSERT' then new.bytes else -old.bytes end;
begin
  perform pg_advisory_xact_lock_shared(7302, hashtext(file.tenant_id::text));
  update tenant_usage u set stored_bytes = u.stored_bytes + more where u.tenant_id = file.tenant_id;
  if file.quota_key_id is not null then
    update key_usage u set stored_bytes = u.stored_bytes + more
     where u.tenant_id = file.tenant_id and u.key_id = file.quota_key_id;
  end if;
  return null;
end $f$;
revoke all on function count_kept_file from public;
create trigger openai_file_counted after insert or delete on openai_file
  for each row execute function count_kept_file();
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("openai_file", "openai_store", "openai_file_batch", "openai_batch_file"))
    run_script(COUNTING)
