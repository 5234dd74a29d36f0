"""Roles, tables and their walls.

Revision ID: 0001
Revises:

Run as the tables' owner, a NOSUPERUSER CREATEROLE login that owns the database, where ``create extension vector`` is
already done. carrel_app holds what the service's plain login may do; carrel_search and carrel_control own the definer
functions of the next revisions and nothing else; none of the three can log in.
"""

from app.db.migrate import run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROLES = """
set local lock_timeout = '5s';
do $$ declare r text; begin
  foreach r in array array['carrel_app', 'carrel_search', 'carrel_control'] loop
    begin execute format('create role %I nologin', r); exception when duplicate_object then null; end;
    -- A creator has ADMIN, not SET; the functions are created under `set role`.
    if r <> 'carrel_app' then execute format('grant %I to %I with inherit false, set true', r, current_user); end if;
  end loop;
  execute format('revoke temporary on database %I from public', current_database());  -- a temporary table must not shadow ours
end $$;
revoke create on schema public from public;
grant usage on schema public to carrel_app, carrel_search, carrel_control;

-- The tenant of the transaction. After a commit the setting reads ''. The system tenant holds the shared level.
create function current_tenant() returns uuid language sql stable parallel safe
  return nullif(pg_catalog.current_setting('app.tenant_id', true), '')::uuid;
create function system_tenant() returns uuid language sql immutable parallel safe
  return '00000000-0000-0000-0000-000000000001'::uuid;
revoke all on function current_tenant, system_tenant from public;
grant execute on function current_tenant, system_tenant to carrel_app, carrel_search, carrel_control;
"""

CONTROL_PLANE = """
create table tenant (
  id uuid constraint tenant_pkey primary key, name text not null,
  created_at timestamptz not null default now(), deleted_at timestamptz);

create table api_key (
  tenant_id uuid not null constraint api_key_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, name text not null,
  role text not null constraint api_key_role_check check (role in ('admin', 'writer', 'reader')),
  key_hash bytea not null, hint text not null, knowledge_base_ids uuid[],
  created_at timestamptz not null default now(), expires_at timestamptz, revoked_at timestamptz,
  constraint api_key_pkey primary key (tenant_id, id));
create index api_key_key_hash_idx on api_key (key_hash);

create table job_lane (
  tenant_id uuid not null constraint job_lane_pkey primary key
    constraint job_lane_tenant_id_fkey references tenant on delete cascade,
  max_running smallint not null default 2, last_claim timestamptz not null default '-infinity');
"""

KNOWLEDGE = """
create table knowledge_base (
  tenant_id uuid not null constraint knowledge_base_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, name text not null, title text, description text, language text not null default 'english',
  chunking jsonb not null, retrieval jsonb not null, metadata_filter jsonb not null default '{}',
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  constraint knowledge_base_pkey primary key (tenant_id, id),
  constraint knowledge_base_tenant_id_name_key unique (tenant_id, name));

create table search_index (
  tenant_id uuid not null, kb_id uuid not null, id uuid not null, identity jsonb not null,
  dim int not null constraint search_index_dim_check check (dim between 1 and 16000),
  state text not null default 'building'
    constraint search_index_state_check check (state in ('live', 'building', 'retired')),
  avgdl real not null default 100 constraint search_index_avgdl_check check (avgdl > 0),
  vector_index text not null default 'exact'
    constraint search_index_vector_index_check check (vector_index in ('exact', 'building', 'hnsw')),
  created_at timestamptz not null default now(),
  constraint search_index_pkey primary key (tenant_id, id),
  constraint search_index_tenant_id_kb_id_id_key unique (tenant_id, kb_id, id),
  constraint search_index_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id) references knowledge_base on delete cascade);
create unique index search_index_live_idx on search_index (tenant_id, kb_id) where state = 'live';
"""

DOCUMENTS = """
create table document (
  tenant_id uuid not null, kb_id uuid not null, id uuid not null, version int not null default 1, live_version int,
  external_id text, source text not null, title text, source_uri text, source_created_at timestamptz,
  media_type text not null, encoding text, bytes bigint not null, sha256 bytea not null,
  scope_level text not null default 'tenant' constraint document_scope_level_check
    check (scope_level in ('shared', 'tenant', 'user', 'chat_shared', 'chat_agent')),
  scope_key uuid not null, user_id text, chat_id text, agent_id text, dynamic boolean not null default false,
  metadata jsonb not null default '{}', filterable jsonb not null default '{}', expires_at timestamptz,
  status text not null default 'queued' constraint document_status_check
    check (status in ('queued', 'parsing', 'chunking', 'embedding', 'ready', 'failed')),
  progress jsonb, error jsonb, warnings jsonb not null default '[]', page_count int, chunk_count int not null default 0,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  constraint document_pkey primary key (tenant_id, id),
  constraint document_tenant_id_kb_id_id_key unique (tenant_id, kb_id, id),
  constraint document_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id) references knowledge_base on delete cascade);
create unique index document_external_id_idx on document (tenant_id, kb_id, scope_key, external_id)
  where external_id is not null;
create unique index document_sha256_idx on document (tenant_id, kb_id, scope_key, sha256) where external_id is null;

create table document_object (  -- where the originals are, one row a version
  tenant_id uuid not null, document_id uuid not null, version int not null, key text not null,
  constraint document_object_pkey primary key (tenant_id, document_id, version),
  constraint document_object_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);

create table document_text (
  tenant_id uuid not null, document_id uuid not null, version int not null, content text not null,
  constraint document_text_pkey primary key (tenant_id, document_id),
  constraint document_text_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);

create table node (
  tenant_id uuid not null, document_id uuid not null, id uuid not null, parent_id uuid, ordinal int not null,
  kind text not null, level int not null, title text, start_offset int not null, end_offset int not null,
  page int, page_end int, slide int, block text,
  constraint node_pkey primary key (tenant_id, document_id, id),
  constraint node_tenant_id_document_id_fkey foreign key (tenant_id, document_id) references document on delete cascade);

create table job (
  tenant_id uuid not null constraint job_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, kind text not null, document_id uuid, payload jsonb not null default '{}',
  priority smallint not null default 0, state text not null default 'ready'
    constraint job_state_check check (state in ('ready', 'running', 'dead')),
  run_at timestamptz not null default now(), attempts int not null default 0, max_attempts int not null default 5,
  worker text, lease_until timestamptz, error jsonb, created_at timestamptz not null default now(),
  constraint job_pkey primary key (tenant_id, id),
  constraint job_tenant_id_document_id_fkey foreign key (tenant_id, document_id) references document on delete cascade)
  with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index job_ready_idx on job (tenant_id, priority desc, run_at, id) where state = 'ready';
create index job_running_idx on job (tenant_id, lease_until) where state = 'running';
create index job_document_idx on job (tenant_id, document_id);
"""

LANES = """
create table chunk (
  tenant_id uuid not null, kb_id uuid not null, index_id uuid not null, id uuid not null, document_id uuid not null,
  version int not null, ordinal int not null, content text not null, start_offset int not null, end_offset int not null,
  token_count int not null, page int, page_end int, slide int, section_titles jsonb not null default '[]',
  node_path int4[] not null,  -- from the root; with document and version it makes the ids of the node and its ancestors
  constraint chunk_pkey primary key (tenant_id, index_id, id),
  constraint chunk_tenant_id_kb_id_document_id_fkey foreign key (tenant_id, kb_id, document_id)
    references document (tenant_id, kb_id, id) on delete cascade,
  constraint chunk_tenant_id_kb_id_index_id_fkey foreign key (tenant_id, kb_id, index_id)
    references search_index (tenant_id, kb_id, id) on delete cascade);
create index chunk_document_idx on chunk (tenant_id, kb_id, document_id);

-- The lanes carry what a search filters by: scope_key, and metadata with the reserved names as keys of their own.
-- No second btree begins with (tenant_id, index_id): the planner takes the two for independent, expects one row, and
-- look-ups by chunk then scan the whole index through it. The extended statistics cure the estimate once ANALYZE has run.
create table chunk_embedding (
  tenant_id uuid not null, index_id uuid not null, chunk_id uuid not null, dim int not null, scope_key uuid not null,
  metadata jsonb not null default '{}', embedding halfvec not null,
  constraint chunk_embedding_dim_check check (vector_dims(embedding) = dim),
  constraint chunk_embedding_pkey primary key (tenant_id, index_id, chunk_id, dim),
  constraint chunk_embedding_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk on delete cascade) partition by list (dim);
do $$ declare d int; begin
  foreach d in array array[384, 512, 768, 1024, 1536, 2048, 3072] loop
    execute format('create table %I partition of chunk_embedding for values in (%L)', 'chunk_embedding_' || d, d);
    execute format('alter table %I alter embedding set storage plain', 'chunk_embedding_' || d);
    execute format('create statistics %I (ndistinct, dependencies) on tenant_id, index_id from %I',
                   'chunk_embedding_' || d || '_index', 'chunk_embedding_' || d);
  end loop;
  create table chunk_embedding_other partition of chunk_embedding default;  -- default storage: 4,000 dimensions fill a page
end $$;

create table chunk_lexical (
  tenant_id uuid not null, index_id uuid not null, chunk_id uuid not null, dl int not null, scope_key uuid not null,
  metadata jsonb not null default '{}', terms sparsevec not null, keys int4[] not null,
  constraint chunk_lexical_pkey primary key (tenant_id, index_id, chunk_id),
  constraint chunk_lexical_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk on delete cascade);
create statistics chunk_lexical_index (ndistinct, dependencies) on tenant_id, index_id from chunk_lexical;
create index chunk_lexical_keys on chunk_lexical using gin (keys) with (fastupdate = on);

create table lex_df (tenant_id uuid not null, index_id uuid not null, key int4 not null, df int not null);
create index lex_df_key on lex_df (tenant_id, index_id, key) include (df);
create table lex_totals (tenant_id uuid not null, index_id uuid not null, chunks bigint not null, tokens bigint not null);
create index lex_totals_index on lex_totals (tenant_id, index_id) include (chunks, tokens);
"""

WALLS = r"""
do $$ declare t text; own text; read text;
  mine text := '(tenant_id = (select current_tenant()))';
  shared text := '(tenant_id = (select current_tenant()) or (tenant_id = system_tenant() and (select current_tenant()) is not null))';
begin
  for t in select relname from pg_class
           where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and relname <> 'alembic_version' loop
    execute format('alter table %I enable row level security', t);
    execute format('alter table %I force row level security', t);
    execute format('revoke all on %I from public', t);
    -- Without it FORCE would make the owner's own updates touch no row.
    execute format('create policy owner on %I to %I using (true) with check (true)', t, current_user);
    continue when t like 'chunk\_embedding\_%';  -- partitions are reached through the parent only
    own := case t when 'tenant' then replace(mine, 'tenant_id', 'id') else mine end;
    read := case when t in ('tenant', 'api_key', 'job', 'job_lane') then own else shared end;
    execute format('create policy read on %I for select to carrel_app using %s', t, read);
    execute format('create policy add on %I for insert to carrel_app with check %s', t, own);
    execute format('create policy change on %I for update to carrel_app using %s with check %s', t, own, own);
    execute format('create policy remove on %I for delete to carrel_app using %s', t, own);
    execute format('grant select, insert, update, delete on %I to carrel_app', t);
  end loop;
  -- USING (true) on the lanes: any condition there would keep && and @> (not leakproof) off the GIN; the functions
  -- check the tenant themselves.
  foreach t in array array['chunk_embedding', 'chunk_lexical', 'lex_df', 'lex_totals'] loop
    execute format('create policy search on %I for select to carrel_search using (true)', t);
    execute format('grant select on %I to carrel_search', t);
  end loop;
  execute format('create policy search on search_index for select to carrel_search using %s', shared);
  grant select on search_index to carrel_search;
  foreach t in array array['tenant', 'api_key', 'job', 'job_lane', 'document'] loop
    execute format('create policy control on %I to carrel_control using (true) with check (true)', t);
  end loop;
  grant select on tenant, api_key to carrel_control;
  grant select, update on job to carrel_control;
  grant select, insert, update on job_lane to carrel_control;
  grant select (tenant_id, id, version, status), update (status, error, progress, updated_at) on document to carrel_control;
  revoke all on alembic_version from public;
  insert into tenant (id, name) values (system_tenant(), 'system');
end $$;
"""


def upgrade() -> None:
    for script in (ROLES, CONTROL_PLANE, KNOWLEDGE, DOCUMENTS, LANES, WALLS):
        run_script(script)
