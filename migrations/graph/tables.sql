-- Settings of the entity extraction that built the index's graph. Null: the index has no graph.
alter table search_index add column graph jsonb;

-- The entities of a chunk: distinct keys, and for each key a count, a name and a kind. The count says how often the chunk
-- names the entity, and names has the entity as the chunk writes it. kinds has one letter for each key: t title,
-- s source name, h heading, n name, i identifier. q is a quoted name, m metadata, g given with the chunk. x marks an
-- entity of another extractor or of a model, whose type is in types. A key is the 32-bit hash of the normalised name,
-- salted with the knowledge base, so that no worker allocates keys. No second btree may begin with
-- (tenant_id, index_id), see chunk_embedding.
create table chunk_entity (
  tenant_id uuid not null,
  index_id uuid not null,
  chunk_id uuid not null,
  scope_key uuid not null,
  keys int[] not null,
  counts smallint[] not null,
  names text[] not null,
  kinds text not null,
  types text[],
  constraint chunk_entity_pkey primary key (tenant_id, index_id, chunk_id),
  constraint chunk_entity_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk (tenant_id, index_id, id) on delete cascade
);
create index chunk_entity_keys on chunk_entity using gin (keys) with (fastupdate='on');
create statistics chunk_entity_index (ndistinct, dependencies) on tenant_id, index_id from chunk_entity;

-- The entities of a search index. chunks is the number of chunks that name an entity. titles is the number of those that
-- have it as a title, heading or source name. name is the normalised name, null in changes that subtract. Rows are
-- changes, and maintenance merges them; the name disappears with the last chunk. There is no foreign key: the job that
-- drops an index clears its rows.
create table entity (
  tenant_id uuid not null,
  index_id uuid not null,
  key int not null,
  chunks int not null,
  titles int not null default 0,
  name text
);
create index entity_key on entity (tenant_id, index_id, key) include (chunks, titles);
create index entity_name on entity (tenant_id, index_id, name text_pattern_ops) where name is not null;

-- Number of chunks that name an entity, by private level, like private_frequency.
create table private_entity_frequency (
  tenant_id uuid not null,
  index_id uuid not null,
  scope_key uuid not null,
  key int not null,
  chunks int not null
);
create index private_entity_frequency_key on private_entity_frequency (tenant_id, index_id, scope_key, key)
  include (chunks);

-- Corrections by people. A merge: everything named `key` counts as `target_key`. A split has a document: what that
-- document names `key` counts as `target_key`, whose name people gave (target_name). Searches apply the rows, so that
-- deleting a row undoes it.
create table entity_alias (
  tenant_id uuid not null,
  kb_id uuid not null,
  id uuid not null,
  key int not null,
  target_key int not null,
  document_id uuid,
  target_name text,
  created_by text,
  created_at timestamptz not null default now(),
  constraint entity_alias_pkey primary key (tenant_id, id),
  constraint entity_alias_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade,
  constraint entity_alias_tenant_id_kb_id_document_id_fkey foreign key (tenant_id, kb_id, document_id)
    references document (tenant_id, kb_id, id) on delete cascade,
  constraint entity_alias_key_check check (key <> target_key)
);
create unique index entity_alias_key on entity_alias (tenant_id, kb_id, key, document_id) nulls not distinct;

-- A relation that a chunk is evidence for. Its subject and its object are entities of the chunk. start_offset and
-- end_offset are the place of the evidence in the chunk's text. method names who found it.
create table relation (
  tenant_id uuid not null,
  index_id uuid not null,
  chunk_id uuid not null,
  ordinal smallint not null,
  subject_key int not null,
  object_key int not null,
  predicate text not null,
  start_offset int,
  end_offset int,
  method text not null,
  constraint relation_pkey primary key (tenant_id, index_id, chunk_id, ordinal),
  constraint relation_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk (tenant_id, index_id, id) on delete cascade
);
create index relation_keys on relation using gin ((array[subject_key, object_key])) with (fastupdate='on');
create statistics relation_index (ndistinct, dependencies) on tenant_id, index_id from relation;
