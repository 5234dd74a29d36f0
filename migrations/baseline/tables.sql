-- The tables of version 0.1.0 with their constraints and indexes, in an order that foreign keys allow.
-- Row-level security and grants are in policies.sql, triggers in app/db/sql.

-- Tenants and API keys

-- A tenant. With deleted_at set, its API keys are refused while its rows and objects are removed.
create table tenant (
  id uuid not null,
  name text not null,
  created_at timestamptz not null default now(),
  deleted_at timestamptz,
  quotas jsonb not null default '{}',
  sql_views boolean not null default false,
  constraint tenant_pkey primary key (id)
);
insert into tenant (id, name) values ('00000000-0000-0000-0000-000000000001', 'system');

-- An API key. Only the SHA-256 of the key is stored; hint is the key's beginning, for display. key_lineage_id is the
-- first key of a chain of rotations, replaced_by the next one.
create table api_key (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  role text not null,
  key_hash bytea not null,
  hint text not null,
  knowledge_base_ids uuid[],
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  user_id text,
  replaced_by uuid,
  quotas jsonb not null default '{}',
  key_lineage_id uuid,
  constraint api_key_pkey primary key (tenant_id, id),
  constraint api_key_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade,
  constraint api_key_role_check check (role in ('admin', 'writer', 'reader'))
);
create index api_key_key_hash_idx on api_key (key_hash);

-- The minute of an API key's last use. It is not in api_key, because every process is notified of a change there.
create table api_key_use (
  tenant_id uuid not null,
  key_id uuid not null,
  last_used_at timestamptz not null,
  constraint api_key_use_pkey primary key (tenant_id, key_id),
  constraint api_key_use_tenant_id_key_id_fkey foreign key (tenant_id, key_id)
    references api_key (tenant_id, id) on delete cascade
) with (fillfactor = 70);

-- Knowledge bases and their search indexes

-- A named set of documents with common settings for chunking, embedding and search. One of kind http has an HTTP source
-- instead.
create table knowledge_base (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  title text,
  description text,
  language text not null default 'english',
  chunking jsonb not null,
  retrieval jsonb not null,
  metadata_filter jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  pending_metadata_filter jsonb,
  deleted_at timestamptz,
  routing jsonb not null default '{}',
  routing_texts jsonb not null default '{}',
  kind text not null default 'documents',
  source jsonb,
  filter_revision int not null default 0,
  constraint knowledge_base_pkey primary key (tenant_id, id),
  constraint knowledge_base_tenant_id_name_key unique (tenant_id, name),
  constraint knowledge_base_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade,
  constraint knowledge_base_kind_check check (kind in ('documents', 'http'))
);

-- One generation of a knowledge base's chunks. identity names the model and the settings of its vectors and terms.
-- skip_reason is the reason for a missing vector index.
create table search_index (
  tenant_id uuid not null,
  kb_id uuid not null,
  id uuid not null,
  identity jsonb not null,
  dim int not null,
  state text not null default 'building',
  avgdl real not null default 100,
  vector_index text not null default 'exact',
  created_at timestamptz not null default now(),
  skip_reason text,
  built_chunks bigint,
  deleted_chunks bigint not null default 0,
  index_bytes bigint not null default 0,
  settings jsonb,
  started_at timestamptz,
  retired_at timestamptz,
  error jsonb,
  job_id uuid,
  documents_done bigint not null default 0,
  documents_total bigint not null default 0,
  languages text[] not null default '{}',
  constraint search_index_pkey primary key (tenant_id, id),
  constraint search_index_tenant_id_kb_id_id_key unique (tenant_id, kb_id, id),
  constraint search_index_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade,
  constraint search_index_avgdl_check check (avgdl > 0),
  constraint search_index_dim_check check (dim between 1 and 16000),
  constraint search_index_skip_reason_check check (skip_reason in ('no_owner', 'too_many', 'too_wide', 'inexact')),
  constraint search_index_state_check check (state in ('live', 'building', 'retired')),
  constraint search_index_vector_index_check check (vector_index in ('exact', 'building', 'hnsw'))
);
create unique index search_index_building_idx on search_index (tenant_id, kb_id)
  where state = 'building';
create unique index search_index_live_idx on search_index (tenant_id, kb_id)
  where state = 'live';
create index search_index_retired_idx on search_index (tenant_id, retired_at)
  where state = 'retired';

-- Documents

-- An uploaded document. version is the newest version; searches see live_version. The document's metadata has the
-- enforced metadata of the knowledge base's revision metadata_revision.
create table document (
  tenant_id uuid not null,
  kb_id uuid not null,
  id uuid not null,
  version int not null default 1,
  live_version int,
  external_id text,
  source text not null,
  title text,
  source_uri text,
  source_created_at timestamptz,
  media_type text not null,
  encoding text,
  bytes bigint not null,
  sha256 bytea not null,
  scope_level text not null default 'tenant',
  scope_key uuid not null,
  user_id text,
  chat_id text,
  agent_id text,
  dynamic boolean not null default false,
  metadata jsonb not null default '{}',
  filterable jsonb not null default '{}',
  expires_at timestamptz,
  status text not null default 'queued',
  progress jsonb,
  error jsonb,
  warnings jsonb not null default '[]',
  page_count int,
  chunk_count int not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  language text,
  quota_key_id uuid,
  metadata_revision int not null default 0,
  constraint document_pkey primary key (tenant_id, id),
  constraint document_tenant_id_kb_id_id_key unique (tenant_id, kb_id, id),
  constraint document_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade,
  constraint document_scope_level_check check (scope_level in ('shared', 'tenant', 'user', 'chat_shared', 'chat_agent')),
  constraint document_status_check check (status in ('queued', 'parsing', 'chunking', 'embedding', 'ready', 'failed'))
);
create index document_expires_idx on document (tenant_id, expires_at)
  where expires_at is not null;
create unique index document_external_id_idx on document (tenant_id, kb_id, scope_key, external_id)
  where external_id is not null;
create index document_scope_idx on document (tenant_id, scope_key, kb_id)
  where scope_level in ('user', 'chat_shared', 'chat_agent');
create unique index document_sha256_idx on document (tenant_id, kb_id, scope_key, sha256)
  where external_id is null;

-- The key of the stored original, for each version.
create table document_object (
  tenant_id uuid not null,
  document_id uuid not null,
  version int not null,
  key text not null,
  constraint document_object_pkey primary key (tenant_id, document_id, version),
  constraint document_object_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- The text of the live version. Offsets of nodes and chunks refer to it.
create table document_text (
  tenant_id uuid not null,
  document_id uuid not null,
  version int not null,
  content text not null,
  constraint document_text_pkey primary key (tenant_id, document_id),
  constraint document_text_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- Lines of a page of a PDF: ranges of the text, and boxes (x0, y0, x1, y1) in tenths of a point.
create table document_page (
  tenant_id uuid not null,
  document_id uuid not null,
  page int not null,
  width real not null,
  height real not null,
  starts int[] not null,
  ends int[] not null,
  boxes int[] not null,
  constraint document_page_pkey primary key (tenant_id, document_id, page),
  constraint document_page_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- An image of the live version and the key of its stored bytes.
create table document_image (
  tenant_id uuid not null,
  document_id uuid not null,
  version int not null,
  ordinal int not null,
  key text not null,
  media_type text not null,
  bytes bigint not null,
  width int not null,
  height int not null,
  sha256 bytea not null,
  constraint document_image_pkey primary key (tenant_id, document_id, version, ordinal),
  constraint document_image_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- A model's caption of an image, found by the hash of the image's bytes, so that it is paid once.
create table image_caption (
  tenant_id uuid not null,
  identity uuid not null,
  sha256 bytea not null,
  document_id uuid not null,
  content text not null,
  created_at timestamptz not null default now(),
  constraint image_caption_pkey primary key (tenant_id, identity, sha256, document_id),
  constraint image_caption_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);
create index image_caption_document_idx on image_caption (tenant_id, document_id);

-- An element of the document tree. ordinal counts in reading order; the root is 0.
create table node (
  tenant_id uuid not null,
  document_id uuid not null,
  id uuid not null,
  parent_id uuid,
  ordinal int not null,
  kind text not null,
  level int not null,
  title text,
  start_offset int not null,
  end_offset int not null,
  page int,
  page_end int,
  slide int,
  block text,
  constraint node_pkey primary key (tenant_id, document_id, id),
  constraint node_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- A vector, found by the hash of its text. It is stored until the document's version is complete.
create table embedding_checkpoint (
  tenant_id uuid not null,
  identity uuid not null,
  content_hash bytea not null,
  document_id uuid not null,
  embedding halfvec not null,
  created_at timestamptz not null default now(),
  constraint embedding_checkpoint_pkey primary key (tenant_id, identity, content_hash, document_id),
  constraint embedding_checkpoint_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);
create index embedding_checkpoint_document_idx on embedding_checkpoint (tenant_id, document_id);

-- Number of texts and images that were embedded on one day (UTC) and of their tokens, by model.
create table embedding_usage (
  tenant_id uuid not null,
  day date not null,
  model text not null,
  inputs bigint not null,
  tokens bigint not null,
  constraint embedding_usage_pkey primary key (tenant_id, day, model),
  constraint embedding_usage_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- Jobs, workers and model providers

-- A unit of background work, enqueued in the transaction that changes its subject.
create table job (
  tenant_id uuid not null,
  id uuid not null,
  kind text not null,
  document_id uuid,
  payload jsonb not null default '{}',
  priority smallint not null default 0,
  state text not null default 'ready',
  run_at timestamptz not null default now(),
  attempts int not null default 0,
  max_attempts int not null default 5,
  worker text,
  lease_until timestamptz,
  error jsonb,
  created_at timestamptz not null default now(),
  every interval,
  quota_key_id uuid,
  constraint job_pkey primary key (tenant_id, id),
  constraint job_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade,
  constraint job_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade,
  constraint job_state_check check (state in ('ready', 'running', 'dead'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index job_dead_idx on job (tenant_id, run_at)
  where state = 'dead';
create index job_delivery_idx on job (tenant_id, run_at, id)
  where (state = 'ready') and (kind = 'send_webhook');
create index job_document_idx on job (tenant_id, document_id);
create index job_key_idx on job (tenant_id, quota_key_id, priority desc, run_at, id)
  where (state = 'ready') and (quota_key_id is not null);
create index job_periodic_idx on job (tenant_id, run_at)
  where every is not null;
create index job_ready_idx on job (tenant_id, priority desc, run_at, id)
  where (state = 'ready') and (quota_key_id is null) and (kind <> 'send_webhook');
create index job_running_idx on job (tenant_id, lease_until)
  where state = 'running';

-- Time of a tenant's last claimed job: the tenant that waits longest comes first. max_running replaces the default
-- limit of running jobs.
create table tenant_queue (
  tenant_id uuid not null,
  max_running smallint,
  last_claim timestamptz not null default '-infinity',
  constraint tenant_queue_pkey primary key (tenant_id),
  constraint tenant_queue_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- A worker's last heartbeat. Rows belong to the system tenant.
create unlogged table worker_heartbeat (
  tenant_id uuid not null,
  name text not null,
  started_at timestamptz not null default now(),
  heartbeat_at timestamptz not null default now(),
  outages text[] not null default '{}',
  confinement text,
  confinement_detail text,
  constraint worker_heartbeat_pkey primary key (tenant_id, name),
  constraint worker_heartbeat_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- Remaining requests and tokens of a model provider's rate limits. Rows belong to the system tenant.
create unlogged table provider_rate_limit (
  tenant_id uuid not null,
  provider uuid not null,
  requests float8 not null default 0,
  tokens float8 not null default 0,
  filled_at timestamptz not null default now(),
  paused_until timestamptz,
  constraint provider_rate_limit_pkey primary key (tenant_id, provider),
  constraint provider_rate_limit_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- Locked as a whole while a job is claimed. LOCK TABLE needs a right that no login of a SQL view has.
create table claim_lock ();

-- Locked as a whole while the tables' owner builds indexes.
create table index_build_lock ();

-- Chunks and search data

-- A chunk's text and its position in the document. A search reads only the rows of its final results.
create table chunk (
  tenant_id uuid not null,
  kb_id uuid not null,
  index_id uuid not null,
  id uuid not null,
  document_id uuid not null,
  version int not null,
  ordinal int not null,
  content text not null,
  start_offset int not null,
  end_offset int not null,
  token_count int not null,
  page int,
  page_end int,
  slide int,
  section_titles jsonb not null default '[]',
  node_path int[] not null,
  metadata jsonb not null default '{}',
  image_ordinal int,
  media_type text,
  constraint chunk_pkey primary key (tenant_id, index_id, id),
  constraint chunk_tenant_id_kb_id_document_id_fkey foreign key (tenant_id, kb_id, document_id)
    references document (tenant_id, kb_id, id) on delete cascade,
  constraint chunk_tenant_id_kb_id_index_id_fkey foreign key (tenant_id, kb_id, index_id)
    references search_index (tenant_id, kb_id, id) on delete cascade
);
create index chunk_document_idx on chunk (tenant_id, kb_id, document_id);

-- A chunk's vector, partitioned by dimension. A search filters by scope_key and metadata. No second btree may begin
-- with (tenant_id, index_id). The planner would treat the two columns as independent, expect one row, and scan the
-- whole index for a look-up by chunk. The extended statistics correct the estimate after ANALYZE.
create table chunk_embedding (
  tenant_id uuid not null,
  index_id uuid not null,
  chunk_id uuid not null,
  dim int not null,
  scope_key uuid not null,
  metadata jsonb not null default '{}',
  embedding halfvec not null,
  constraint chunk_embedding_pkey primary key (tenant_id, index_id, chunk_id, dim),
  constraint chunk_embedding_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk (tenant_id, index_id, id) on delete cascade,
  constraint chunk_embedding_dim_check check (vector_dims(embedding) = dim)
) partition by list (dim);
do $$ declare d int; begin
  foreach d in array array[384, 512, 768, 1024, 1536, 2048, 3072] loop
    execute format('create table %I partition of chunk_embedding for values in (%L)', 'chunk_embedding_' || d, d);
    execute format('alter table %I alter embedding set storage plain', 'chunk_embedding_' || d);
    execute format('create statistics %I (ndistinct, dependencies) on tenant_id, index_id from %I',
                   'chunk_embedding_' || d || '_index', 'chunk_embedding_' || d);
  end loop;
  create table chunk_embedding_other partition of chunk_embedding default;  -- default storage: 4,000 dimensions fill a page
end $$;

-- A chunk's BM25 term weights and the keys of the inverted index. dl is the chunk's number of terms.
create table chunk_lexical (
  tenant_id uuid not null,
  index_id uuid not null,
  chunk_id uuid not null,
  dl int not null,
  scope_key uuid not null,
  metadata jsonb not null default '{}',
  terms sparsevec not null,
  keys int[] not null,
  constraint chunk_lexical_pkey primary key (tenant_id, index_id, chunk_id),
  constraint chunk_lexical_tenant_id_index_id_chunk_id_fkey foreign key (tenant_id, index_id, chunk_id)
    references chunk (tenant_id, index_id, id) on delete cascade
);
create index chunk_lexical_keys on chunk_lexical using gin (keys) with (fastupdate='on');
create statistics chunk_lexical_index (ndistinct, dependencies) on tenant_id, index_id from chunk_lexical;

-- Number of chunks (df) that have a key, and an upper bound of the key's weights. Rows are changes, and maintenance
-- merges them. The same is true of the next two tables.
create table term_document_frequency (
  tenant_id uuid not null,
  index_id uuid not null,
  key int not null,
  df int not null,
  max_weight real not null default 1
);
create index term_document_frequency_key on term_document_frequency (tenant_id, index_id, key) include (df, max_weight);

-- Number of chunks and tokens of a search index.
create table index_totals (
  tenant_id uuid not null,
  index_id uuid not null,
  chunks bigint not null,
  tokens bigint not null,
  merged boolean not null default false
);
create index index_totals_changed_idx on index_totals (tenant_id, index_id)
  where not merged;
create index index_totals_idx on index_totals (tenant_id, index_id) include (chunks, tokens);

-- Number of chunks that have a key, by private level. Rows of all_private_levels() count all private levels together. Rows
-- with a null key count chunks.
create table private_frequency (
  tenant_id uuid not null,
  index_id uuid not null,
  scope_key uuid not null,
  key int,
  chunks int not null
);
create index private_frequency_key on private_frequency (tenant_id, index_id, scope_key, key) include (chunks);

-- The model and the number of chunks of a search index's routing vectors. changed_chunks counts changes since created_at.
create table routing_profile (
  tenant_id uuid not null,
  index_id uuid not null,
  model uuid,
  chunks bigint not null default 0,
  changed_chunks bigint not null default 0,
  texts_id uuid,
  created_at timestamptz not null default now(),
  constraint routing_profile_pkey primary key (tenant_id, index_id),
  constraint routing_profile_tenant_id_index_id_fkey foreign key (tenant_id, index_id)
    references search_index (tenant_id, id) on delete cascade
);

-- A centroid of a search index's chunks, or the vector of the knowledge base's description (described).
create table routing_vector (
  tenant_id uuid not null,
  index_id uuid not null,
  number smallint not null,
  described boolean not null,
  embedding halfvec not null,
  constraint routing_vector_pkey primary key (tenant_id, index_id, number),
  constraint routing_vector_tenant_id_index_id_fkey foreign key (tenant_id, index_id)
    references routing_profile (tenant_id, index_id) on delete cascade
);
alter table routing_vector alter embedding set storage main;

-- Agents, prompts and chats

-- An agent's knowledge bases and limits. The agent's platform chooses agent_id; id is Carrel's id.
create table agent_binding (
  tenant_id uuid not null,
  agent_id text not null,
  id uuid not null,
  knowledge_base_ids uuid[] not null default '{}',
  settings jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint agent_binding_pkey primary key (tenant_id, agent_id),
  constraint agent_binding_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- A version of a prompt of a knowledge base or an agent.
create table prompt_version (
  tenant_id uuid not null,
  id uuid not null,
  kb_id uuid,
  agent_id text,
  prompt text not null,
  number int not null,
  text text not null,
  key_id uuid,
  created_at timestamptz not null default now(),
  constraint prompt_version_pkey primary key (tenant_id, id),
  constraint prompt_version_tenant_id_agent_id_fkey foreign key (tenant_id, agent_id)
    references agent_binding (tenant_id, agent_id) on delete cascade,
  constraint prompt_version_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade,
  constraint prompt_version_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade,
  constraint prompt_version_owner_check check (num_nonnulls(kb_id, agent_id) = 1),
  constraint prompt_version_prompt_check check (prompt in ('rewrite', 'answer'))
);
create unique index prompt_version_agent_idx on prompt_version (tenant_id, agent_id, prompt, number)
  where agent_id is not null;
create unique index prompt_version_kb_idx on prompt_version (tenant_id, kb_id, prompt, number)
  where kb_id is not null;

-- Owner of a chat: the user whose restricted key uploaded its first document.
create table chat (
  tenant_id uuid not null,
  chat_id text not null,
  user_id text not null,
  created_at timestamptz not null default now(),
  constraint chat_pkey primary key (tenant_id, chat_id),
  constraint chat_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- Idempotent requests

-- The response to a write request, stored for retries. While the first request runs, status is null.
create table idempotency_key (
  tenant_id uuid not null,
  api_key_id uuid not null,
  route text not null,
  key text not null,
  request_hash bytea,
  status smallint,
  headers jsonb,
  body bytea,
  created_at timestamptz not null default now(),
  locked_until timestamptz not null,
  constraint idempotency_key_pkey primary key (tenant_id, api_key_id, route, key),
  constraint idempotency_key_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);
create index idempotency_key_created_idx on idempotency_key (tenant_id, created_at);

-- The document, knowledge base or tenant of a stored response. They are deleted together.
create table idempotency_subject (
  tenant_id uuid not null,
  subject_id uuid not null,
  api_key_id uuid not null,
  route text not null,
  key text not null,
  constraint idempotency_subject_pkey primary key (tenant_id, subject_id, api_key_id, route, key),
  constraint idempotency_subject_tenant_id_api_key_id_route_key_fkey foreign key (tenant_id, api_key_id, route, key)
    references idempotency_key (tenant_id, api_key_id, route, key) on delete cascade
);
create index idempotency_subject_answer_idx on idempotency_subject (tenant_id, api_key_id, route, key);

-- Files and vector stores of the OpenAI API

-- A caller's metadata of a vector store, which is a knowledge base.
create table vector_store_labels (
  tenant_id uuid not null,
  kb_id uuid not null,
  metadata jsonb not null default '{}',
  constraint vector_store_labels_pkey primary key (tenant_id, kb_id),
  constraint vector_store_labels_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade
);

-- An uploaded file. key names its bytes in the object store. key_lineage_id names the uploader's API key, quota_key_id the
-- API key whose quota counts the bytes.
create table stored_file (
  tenant_id uuid not null,
  id uuid not null,
  key_lineage_id uuid,
  quota_key_id uuid,
  filename text not null,
  media_type text,
  bytes bigint not null,
  sha256 bytea not null,
  key text not null,
  purpose text not null,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  constraint stored_file_pkey primary key (tenant_id, id),
  constraint stored_file_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- Files that the job job_id attaches to a knowledge base together.
create table file_batch (
  tenant_id uuid not null,
  id uuid not null,
  kb_id uuid not null,
  key_lineage_id uuid,
  cancelled int not null default 0,
  cancelled_at timestamptz,
  created_at timestamptz not null default now(),
  job_id uuid,
  constraint file_batch_pkey primary key (tenant_id, id),
  constraint file_batch_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade
);
create index file_batch_job_idx on file_batch (tenant_id, kb_id)
  where job_id is not null;
create index file_batch_kb_idx on file_batch (tenant_id, kb_id);

-- A file of a batch, with its document or its error.
create table file_batch_file (
  tenant_id uuid not null,
  batch_id uuid not null,
  ordinal int not null,
  file_id uuid not null,
  kb_id uuid not null,
  document_id uuid,
  error jsonb,
  attributes jsonb,
  constraint file_batch_file_pkey primary key (tenant_id, batch_id, ordinal),
  constraint file_batch_file_tenant_id_batch_id_fkey foreign key (tenant_id, batch_id)
    references file_batch (tenant_id, id) on delete cascade,
  constraint file_batch_file_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);
create index file_batch_file_document_idx on file_batch_file (tenant_id, document_id);

-- Webhooks

-- An address that receives events. former_secret also signs them until former_until.
create table webhook (
  tenant_id uuid not null,
  id uuid not null,
  url text not null,
  description text,
  events text[] not null,
  secret bytea not null,
  former_secret bytea,
  former_until timestamptz,
  enabled boolean not null default true,
  disabled_reason text,
  failures int not null default 0,
  paused_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint webhook_pkey primary key (tenant_id, id),
  constraint webhook_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);

-- An event for one webhook. A trigger writes it in the transaction of the change; a job sends it.
create table webhook_delivery (
  tenant_id uuid not null,
  id uuid not null,
  webhook_id uuid not null,
  event text not null,
  data jsonb not null,
  status text not null default 'pending',
  attempts int not null default 0,
  response_status int,
  reason text,
  attempted_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  constraint webhook_delivery_pkey primary key (tenant_id, id),
  constraint webhook_delivery_tenant_id_webhook_id_fkey foreign key (tenant_id, webhook_id)
    references webhook (tenant_id, id) on delete cascade,
  constraint webhook_delivery_status_check check (status in ('pending', 'delivered', 'dead'))
);
create index webhook_delivery_tenant_id_webhook_id_created_at_id_idx on webhook_delivery (tenant_id, webhook_id, created_at, id);

-- SQL views

-- A SQL view of a knowledge base with its login. index_id is the search index that it shows. blocked_reason is the
-- reason for a missing view. No cascade from knowledge_base: the row remains until the view, its schema and its role
-- are dropped.
create table sql_view (
  tenant_id uuid not null,
  id uuid not null,
  kb_id uuid not null,
  collection text not null,
  content_key text not null,
  verifier text not null,
  index_id uuid,
  blocked_reason text,
  removed_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint sql_view_pkey primary key (tenant_id, id),
  constraint sql_view_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade,
  constraint sql_view_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id) references knowledge_base (tenant_id, id),
  constraint sql_view_collection_check check ((collection ~ '^[a-z_][a-z0-9_]{0,62}$') and (collection !~ '^pg_')),
  constraint sql_view_content_key_check check (content_key ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$'),
  constraint sql_view_verifier_check check (verifier ~ '^SCRAM-SHA-256\$[A-Za-z0-9+/=:$]{80,200}$')
);
create unique index sql_view_kb_idx on sql_view (tenant_id, kb_id)
  where removed_at is null;

-- The secret of the digests in notification_name(). One row.
create table notification_secret (
  secret text not null
);
insert into notification_secret select gen_random_uuid()::text || gen_random_uuid()::text;

-- Quotas and usage

-- Documents, bytes and chunks of a tenant with quotas, counted by triggers. A tenant without quotas has no row.
create table tenant_usage (
  tenant_id uuid not null,
  documents bigint not null,
  stored_bytes bigint not null,
  chunks bigint not null,
  constraint tenant_usage_pkey primary key (tenant_id),
  constraint tenant_usage_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- Documents, bytes and chunks of an API key with quotas and of its rotations. A key without quotas has no row.
create table key_usage (
  tenant_id uuid not null,
  key_id uuid not null,
  documents bigint not null default 0,
  stored_bytes bigint not null default 0,
  chunks bigint not null default 0,
  constraint key_usage_pkey primary key (tenant_id, key_id),
  constraint key_usage_tenant_id_key_id_fkey foreign key (tenant_id, key_id)
    references api_key (tenant_id, id) on delete cascade
) with (fillfactor = 50);

-- Usage of an API key on one day (UTC). A key_id of zeros means requests without an API key.
create table usage_day (
  tenant_id uuid not null,
  day date not null,
  key_id uuid not null,
  uploads bigint not null default 0,
  documents bigint not null default 0,
  bytes bigint not null default 0,
  chunks bigint not null default 0,
  searches bigint not null default 0,
  embedding_tokens bigint not null default 0,
  query_tokens bigint not null default 0,
  constraint usage_day_pkey primary key (tenant_id, day, key_id),
  constraint usage_day_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- A row that is locked while the day's usage of all API keys of a tenant is summed.
create table quota_lock (
  tenant_id uuid not null,
  constraint quota_lock_pkey primary key (tenant_id),
  constraint quota_lock_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- Token bucket of the searches of a tenant or an API key. granted is the number of the last withdrawal.
create unlogged table rate_bucket (
  tenant_id uuid not null,
  bucket uuid not null,
  tokens float8 not null,
  granted float8 not null,
  filled_at timestamptz not null,
  constraint rate_bucket_pkey primary key (tenant_id, bucket),
  constraint rate_bucket_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- Number of rows of one kind that a tenant can add before they are counted again. maximum is the quota of the last count.
create table row_allowance (
  tenant_id uuid not null,
  quota text not null,
  remaining bigint not null default 0,
  maximum bigint not null default 0,
  constraint row_allowance_pkey primary key (tenant_id, quota),
  constraint row_allowance_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
) with (fillfactor = 50);

-- Audit log and receipts

-- One action: actor, object, time and address. The row remains when the object or the tenant is deleted.
create table audit_event (
  tenant_id uuid not null,
  created_at timestamptz not null default now(),
  id uuid not null,
  action text not null,
  object_type text not null,
  object_ids uuid[] not null,
  kb_id uuid,
  deletion_id uuid,
  counts jsonb not null default '{}',
  actor text not null,
  actor_id uuid,
  actor_name text,
  request_id text,
  address text,
  constraint audit_event_pkey primary key (tenant_id, created_at, id),
  constraint audit_event_actor_check check (actor in ('key', 'operator', 'token', 'service', 'unknown'))
);
create index audit_event_created_at_idx on audit_event using brin (created_at);
create index audit_event_tenants_idx on audit_event (created_at, id)
  where object_type = 'tenant';

-- The receipt of a deletion and its progress. It remains when its object is deleted, and holds no content.
-- retained_files counts documents whose stored file remains. sql_views are the SQL views whose roles are not dropped
-- yet.
create table deletion (
  tenant_id uuid not null,
  id uuid not null,
  kb_id uuid,
  documents int not null,
  chunks bigint not null,
  requested_at timestamptz not null default now(),
  finished_at timestamptz,
  kind text not null default 'documents',
  object_id uuid,
  bytes bigint not null default 0,
  remaining jsonb,
  retained_files int not null default 0,
  user_key uuid,
  sql_views uuid[] not null default '{}',
  constraint deletion_pkey primary key (tenant_id, id),
  constraint deletion_kind_check check (kind in ('document', 'documents', 'knowledge_base', 'tenant'))
);
create index deletion_requested_at_idx on deletion (requested_at);
create index deletion_unfinished_idx on deletion (requested_at)
  where finished_at is null;
