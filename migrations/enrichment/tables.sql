-- Settings of the enrichment by a chat model. Null: the default settings, with enrichment off.
alter table knowledge_base add column enrichment jsonb;
-- A line that a chat model wrote about the chunk. It is embedded and indexed before the text, and not returned.
alter table chunk add column context_line text;

-- What a chat model wrote about a section. content_hash is the key of the reply in enrichment_result.
create table node_enrichment (
  tenant_id uuid not null,
  document_id uuid not null,
  node_id uuid not null,
  content_hash bytea not null,
  summary text not null,
  keywords jsonb not null default '[]',
  entities jsonb not null default '[]',
  method text not null,
  model text not null,
  prompt_version int not null,
  tokens int not null,
  created_at timestamptz not null default now(),
  constraint node_enrichment_pkey primary key (tenant_id, document_id, node_id),
  constraint node_enrichment_tenant_id_document_id_node_id_fkey foreign key (tenant_id, document_id, node_id)
    references node (tenant_id, document_id, id) on delete cascade
);

-- Replies of the chat model that were paid for, found by the hash of model, prompt and text. A document that is ingested
-- again with the same text costs no call. estimated_tokens is the estimate before the call, for later estimates.
create table enrichment_result (
  tenant_id uuid not null,
  document_id uuid not null,
  content_hash bytea not null,
  reply jsonb not null,
  tokens int not null,
  estimated_tokens int not null,
  created_at timestamptz not null default now(),
  constraint enrichment_result_pkey primary key (tenant_id, document_id, content_hash),
  constraint enrichment_result_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document (tenant_id, id) on delete cascade
);

-- State of the enrichment of a document. version and index_id name the chunks that were enriched.
create table document_enrichment (
  tenant_id uuid not null,
  kb_id uuid not null,
  document_id uuid not null,
  state text not null,
  version int,
  index_id uuid,
  settings_hash bytea,
  sections int not null default 0,
  sections_done int not null default 0,
  calls int not null default 0,
  tokens bigint not null default 0,
  warnings jsonb not null default '[]',
  updated_at timestamptz not null default now(),
  constraint document_enrichment_pkey primary key (tenant_id, document_id),
  constraint document_enrichment_tenant_id_kb_id_document_id_fkey foreign key (tenant_id, kb_id, document_id)
    references document (tenant_id, kb_id, id) on delete cascade,
  constraint document_enrichment_state_check
    check (state in ('queued', 'running', 'ready', 'capped', 'stopped', 'failed'))
);
create index document_enrichment_kb_id_idx on document_enrichment (tenant_id, kb_id, state);

-- Calls and tokens of a day (UTC). owner_id is a knowledge base, or the tenant for the sum over its knowledge bases. The
-- rows outlive a knowledge base, so that its deletion does not renew the limit of the tenant.
create table enrichment_usage (
  tenant_id uuid not null,
  day date not null,
  owner_id uuid not null,
  calls bigint not null default 0,
  tokens bigint not null default 0,
  constraint enrichment_usage_pkey primary key (tenant_id, day, owner_id),
  constraint enrichment_usage_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);
