"""The pictures of documents: where each is kept, what was said of it, and the chunk that it is.

Revision ID: 0008
Revises: 0007

Additions only: nothing is rewritten, and no lock lasts longer than the catalogue takes.
"""

from app.db.migrate import run_script, walls

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

create table document_media (
  tenant_id uuid not null, document_id uuid not null, version int not null, ordinal int not null, key text not null,
  media_type text not null, bytes bigint not null, width int not null, height int not null, sha256 bytea not null,
  constraint document_media_pkey primary key (tenant_id, document_id, version, ordinal),
  constraint document_media_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);

create table picture_description (  -- identity is the model and what it was asked
  tenant_id uuid not null, identity uuid not null, sha256 bytea not null, document_id uuid not null,
  content text not null, created_at timestamptz not null default now(),
  constraint picture_description_pkey primary key (tenant_id, identity, sha256, document_id),
  constraint picture_description_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);
create index picture_description_document_idx on picture_description (tenant_id, document_id);

alter table chunk add media_ordinal int, add media_type text;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("document_media", "picture_description"))
