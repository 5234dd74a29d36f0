"""Routing by centroids: what each knowledge base is about, as vectors.

Revision ID: 0027
Revises: 0026

Additions only. A process of before changes chunks without counting that here, and folds the change away: the next one
is counted again. Every search index counts as changed, so that the first maintenance gives it its centroids.
"""

from app.db.migrate import run_script, walls

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

-- Apart, because every search reads the first, and the texts may be long.
alter table knowledge_base
  add routing jsonb not null default '{}',         -- description_weight, scale, always
  add routing_texts jsonb not null default '{}';   -- descriptions, examples

-- What the vectors were made of: none has changed yet that is counted from then on.
create table routing_profile (
  tenant_id uuid not null, index_id uuid not null,
  model uuid,                               -- names what made the vectors, null where there are none
  chunks bigint not null default 0,
  changed_chunks bigint not null default 0, -- added and removed since then
  texts_id uuid,                            -- names the texts that are embedded here, null where there are none
  made_at timestamptz not null default now(),
  constraint routing_profile_pkey primary key (tenant_id, index_id),
  constraint routing_profile_tenant_id_index_id_fkey foreign key (tenant_id, index_id)
    references search_index on delete cascade);

create table routing_vector (
  tenant_id uuid not null, index_id uuid not null, number smallint not null,
  described boolean not null,               -- of a description or an example; else a centroid of its chunks
  embedding halfvec not null,
  constraint routing_vector_pkey primary key (tenant_id, index_id, number),
  constraint routing_vector_tenant_id_index_id_fkey foreign key (tenant_id, index_id)
    references routing_profile on delete cascade);
-- In the row, as long as they fit: a search reads all of a tenant's.
alter table routing_vector alter embedding set storage main;

-- Which knowledge bases hold documents of one user or one chat: few documents do.
create index document_scope_idx on document (tenant_id, scope_key, kb_id)
  where scope_level in ('user', 'chat_shared', 'chat_agent');
"""

READ = """
do $$ declare t text; begin
  foreach t in array array['routing_profile', 'routing_vector'] loop
    execute format('alter policy read on %I using (tenant_id = (select current_tenant())
                      or (tenant_id = system_tenant() and (select current_tenant()) is not null))', t);
  end loop;
end $$;

update lex_totals set folded = false where folded;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("routing_profile", "routing_vector"))
    run_script(READ)
