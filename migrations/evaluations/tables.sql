-- A golden set: queries whose relevant documents are known.
create table golden_set (
  tenant_id uuid not null,
  id uuid not null,
  name text not null,
  description text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint golden_set_pkey primary key (tenant_id, id),
  constraint golden_set_tenant_id_fkey foreign key (tenant_id) references tenant (id) on delete cascade
);
create index golden_set_tenant_id_created_at_id_idx on golden_set (tenant_id, created_at, id);

-- A query of a golden set, or a conversation, with the ids of what is relevant: [{"document", "chunk"}]. A deleted
-- document stays in the list and is shown as missing. digest is the hash of the query, so that a query has one item.
create table golden_item (
  tenant_id uuid not null,
  set_id uuid not null,
  id uuid not null,
  query text,
  messages jsonb,
  digest bytea not null,
  relevant jsonb not null default '[]',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint golden_item_pkey primary key (tenant_id, set_id, id),
  constraint golden_item_tenant_id_set_id_fkey foreign key (tenant_id, set_id)
    references golden_set (tenant_id, id) on delete cascade,
  constraint golden_item_query_check check (num_nonnulls(query, messages) = 1)
);
create unique index golden_item_digest on golden_item (tenant_id, set_id, digest);

-- A run of a golden set with one or two search settings. figures is written at the end.
create table evaluation (
  tenant_id uuid not null,
  id uuid not null,
  set_id uuid not null,
  settings jsonb not null,
  state text not null default 'queued',
  done int not null default 0,
  total int not null,
  figures jsonb,
  warnings jsonb not null default '[]',
  error jsonb,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint evaluation_pkey primary key (tenant_id, id),
  constraint evaluation_tenant_id_set_id_fkey foreign key (tenant_id, set_id)
    references golden_set (tenant_id, id) on delete cascade,
  constraint evaluation_state_check check (state in ('queued', 'running', 'done', 'failed'))
);
create index evaluation_tenant_id_set_id_idx on evaluation (tenant_id, set_id);
create index evaluation_tenant_id_created_at_id_idx on evaluation (tenant_id, created_at, id);

-- The result of one query with one setting: the ids of what was found and relevant, and the values of the measures.
create table evaluation_result (
  tenant_id uuid not null,
  evaluation_id uuid not null,
  item_id uuid not null,
  setting smallint not null,
  result jsonb not null,
  constraint evaluation_result_pkey primary key (tenant_id, evaluation_id, item_id, setting),
  constraint evaluation_result_tenant_id_evaluation_id_fkey foreign key (tenant_id, evaluation_id)
    references evaluation (tenant_id, id) on delete cascade
);
