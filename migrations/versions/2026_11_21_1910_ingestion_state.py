"""What ingestion remembers: vectors already paid for, what they cost, answers already given, deletions; and tells.

Revision ID: 0004
Revises: 0003

Additions only: nothing is rewritten, and no lock lasts longer than the catalogue takes. The index on document is small
while it is built: it holds rows with an expiry alone, which no earlier version wrote.
"""

from app.db.migrate import run_script, walls

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

-- Gone with its document, and emptied when the version is whole: it outlives a crash, never a deletion.
create table embedding_checkpoint (
  tenant_id uuid not null, identity uuid not null, content_hash bytea not null, document_id uuid not null,
  embedding halfvec not null, created_at timestamptz not null default now(),
  constraint embedding_checkpoint_pkey primary key (tenant_id, identity, content_hash, document_id),
  constraint embedding_checkpoint_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);
create index embedding_checkpoint_document_idx on embedding_checkpoint (tenant_id, document_id);

create table embedding_usage (  -- the cost ledger: tokens of passages that a model was asked to embed
  tenant_id uuid not null constraint embedding_usage_tenant_id_fkey references tenant on delete cascade,
  day date not null, model text not null, passages bigint not null, tokens bigint not null,
  constraint embedding_usage_pkey primary key (tenant_id, day, model));

create table idempotency_key (  -- without a status the first request is still under way
  tenant_id uuid not null constraint idempotency_key_tenant_id_fkey references tenant on delete cascade,
  api_key_id uuid not null, route text not null, key text not null, request_hash bytea, status smallint,
  headers jsonb, body bytea, created_at timestamptz not null default now(), locked_until timestamptz not null,
  constraint idempotency_key_pkey primary key (tenant_id, api_key_id, route, key));
create index idempotency_key_created_idx on idempotency_key (tenant_id, created_at);

create table deletion (  -- outlives what was deleted, and says nothing of its content
  tenant_id uuid not null constraint deletion_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, kb_id uuid not null, documents int not null, chunks bigint not null,
  requested_at timestamptz not null default now(), finished_at timestamptz,
  constraint deletion_pkey primary key (tenant_id, id));

alter table chunk add metadata jsonb not null default '{}';
alter table job add every interval;
create index document_expires_idx on document (tenant_id, expires_at) where expires_at is not null;
"""

# A trigger, so that no way of changing a status can forget to tell those who wait for it. The payload is ids alone.
NOTIFICATION = """
create function notify_document() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_document', old.tenant_id || '/' || old.id || case when tg_op = 'DELETE' then '/deleted' else '' end);
  return null;
end $f$;
revoke all on function notify_document from public;
create trigger document_changed after delete or update of status, progress, version on document
  for each row execute function notify_document();
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(NOTIFICATION)
    run_script(walls("embedding_checkpoint", "embedding_usage", "idempotency_key", "deletion"))
