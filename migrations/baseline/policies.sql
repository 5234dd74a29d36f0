-- Row-level security and grants in addition to the usual policies of a tenant's table, which 0001_baseline.py lists. A
-- policy named `owner` lets the tables' owner through: FORCE applies to the owner too.

-- The tenant's own row
alter table tenant enable row level security, force row level security;
revoke all on tenant from public;
create policy owner on tenant to current_user using (true) with check (true);
create policy read on tenant for select to carrel_app using (id = (select current_tenant()));
create policy add on tenant for insert to carrel_app with check (id = (select current_tenant()));
create policy change on tenant for update to carrel_app
  using (id = (select current_tenant())) with check (id = (select current_tenant()));
create policy remove on tenant for delete to carrel_app using (id = (select current_tenant()));
grant select, insert, update, delete on tenant to carrel_app;

-- Partitions: accessible only through the parent table
do $$ declare t regclass; begin
  for t in select inhrelid::regclass from pg_inherits where inhparent = 'chunk_embedding'::regclass loop
    execute format('alter table %s enable row level security, force row level security', t);
    execute format('revoke all on %s from public', t);
    execute format('create policy owner on %s to current_user using (true) with check (true)', t);
  end loop;
end $$;

-- Audit log: the plain role adds and reads. The operator's list shows events of tenants, which are rows of those tenants.
alter table audit_event enable row level security, force row level security;
revoke all on audit_event from public;
create policy owner on audit_event to current_user using (true) with check (true);
create policy read on audit_event for select to carrel_app using (
  tenant_id = (select current_tenant())
  or object_type = 'tenant' and (select current_tenant()) = (select system_tenant()));
create policy add on audit_event for insert to carrel_app with check (tenant_id = (select current_tenant()));
grant select, insert on audit_event to carrel_app;

-- Tables without tenant: those that are locked as a whole, and the secret of notifications
alter table claim_lock enable row level security, force row level security;
alter table index_build_lock enable row level security, force row level security;
revoke all on claim_lock, index_build_lock, notification_secret from public;
grant update on claim_lock to carrel_control;
grant select on notification_secret to carrel_app, carrel_control;

-- carrel_search: the search functions check the tenant themselves. USING (true): a condition would prevent && and @>,
-- which are not leakproof, from using the GIN indexes.
create policy search on chunk_embedding for select to carrel_search using (true);
create policy search on chunk_lexical for select to carrel_search using (true);
create policy search on term_document_frequency for select to carrel_search using (true);
create policy search on index_totals for select to carrel_search using (true);
create policy search on private_frequency for select to carrel_search using (true);
create policy search on search_index for select to carrel_search using (
  tenant_id = (select current_tenant())
  or tenant_id = system_tenant() and (select current_tenant()) is not null);
grant select on chunk_embedding, chunk_lexical, term_document_frequency, index_totals, private_frequency, search_index to carrel_search;

-- carrel_control: its functions for jobs, the operator, maintenance and webhooks read all tenants
create policy control on tenant to carrel_control using (true) with check (true);
create policy control on api_key to carrel_control using (true) with check (true);
grant select on tenant, api_key to carrel_control;

create policy control on job to carrel_control using (true) with check (true);
create policy control on tenant_queue to carrel_control using (true) with check (true);
create policy control on provider_rate_limit to carrel_control using (true) with check (true);
create policy control on quota_lock to carrel_control using (true) with check (true);
grant select, insert, update on job, tenant_queue, provider_rate_limit, quota_lock to carrel_control;

create policy control on document to carrel_control using (true) with check (true);
grant select (tenant_id, kb_id, id, version, expires_at, status, error) on document to carrel_control;
grant update (status, progress, error, updated_at) on document to carrel_control;

create policy control on worker_heartbeat for select to carrel_control using (true);
create policy control on knowledge_base for select to carrel_control using (true);
create policy control on search_index for select to carrel_control using (true);
create policy control on index_totals for select to carrel_control using (true);
create policy control on routing_profile for select to carrel_control using (true);
create policy control on tenant_usage for select to carrel_control using (true);
create policy control on usage_day for select to carrel_control using (true);
create policy control on webhook for select to carrel_control using (true);
grant select on worker_heartbeat to carrel_control;
grant select (tenant_id, id, name, pending_metadata_filter, deleted_at) on knowledge_base to carrel_control;
grant select (tenant_id, kb_id, id, state, avgdl, retired_at) on search_index to carrel_control;
grant select (tenant_id, index_id, chunks, tokens, merged) on index_totals to carrel_control;
grant select (tenant_id, index_id, chunks, changed_chunks) on routing_profile to carrel_control;
grant select (tenant_id, documents, stored_bytes, chunks) on tenant_usage to carrel_control;
grant select (tenant_id, day, embedding_tokens, query_tokens) on usage_day to carrel_control;
grant select (tenant_id, id, events, enabled) on webhook to carrel_control;

create policy control on webhook_delivery for insert to carrel_control with check (true);
grant insert (tenant_id, id, webhook_id, event, data) on webhook_delivery to carrel_control;

create policy find on audit_event for select to carrel_control using (true);
create policy remove on audit_event for delete to carrel_control using (true);
grant select (tenant_id, created_at, id), delete on audit_event to carrel_control;
create policy control on deletion for select to carrel_control using (true);
create policy expire on deletion for delete to carrel_control using (true);
grant select (tenant_id, id, requested_at, finished_at), delete on deletion to carrel_control;

-- carrel_sql_view: the login of a SQL view (session_user) sees the documents of its row in sql_view, or nothing. The
-- policies isolate tenants, not the conditions of the views. A view with a security barrier could not use the vector
-- index.
create policy sql_view on tenant for select to carrel_sql_view using (deleted_at is null and sql_views);
create policy sql_view on sql_view for select to carrel_sql_view
  using (id = substring(session_user::text from '^carrel_sql_view_([0-9a-f]{32})$')::uuid and removed_at is null
         and exists (select from tenant t where t.id = tenant_id));
create policy sql_view on knowledge_base for select to carrel_sql_view
  using (tenant_id = (select p.tenant_id from sql_view p) and id = (select p.kb_id from sql_view p)
         and deleted_at is null);
create policy sql_view on document for select to carrel_sql_view
  using (tenant_id = (select p.tenant_id from sql_view p) and kb_id = (select p.kb_id from sql_view p)
         and scope_level = 'tenant' and not dynamic and (expires_at is null or expires_at > now()));
create policy sql_view on chunk for select to carrel_sql_view
  using (tenant_id = (select p.tenant_id from sql_view p) and index_id = (select p.index_id from sql_view p)
         -- `offset 0` looks up the document by key. A planner that hashes instead reads every document first.
         and exists (select from document d where d.tenant_id = chunk.tenant_id and d.id = chunk.document_id offset 0));
create policy sql_view on chunk_embedding for select to carrel_sql_view
  using (tenant_id = (select p.tenant_id from sql_view p) and index_id = (select p.index_id from sql_view p)
         and scope_key = '7685c63c-898a-5fdf-9657-6dbb2c1d163f'  -- the tenant's level, as in app/documents/scopes.py
         -- The planner expects half of the rows to pass a CASE, but only one in a hundred to pass @>. With that
         -- estimate it would read all rows and not use the vector index.
         and case when metadata @> (select k.metadata_filter from knowledge_base k)
                    or metadata @> (select k.pending_metadata_filter from knowledge_base k) then true else false end);
grant select (id, deleted_at, sql_views) on tenant to carrel_sql_view;
grant select (tenant_id, id, kb_id, index_id, removed_at) on sql_view to carrel_sql_view;
grant select (tenant_id, id, metadata_filter, pending_metadata_filter, deleted_at) on knowledge_base to carrel_sql_view;
grant select (tenant_id, kb_id, id, scope_level, dynamic, expires_at) on document to carrel_sql_view;
grant select (tenant_id, index_id, id, document_id, content) on chunk to carrel_sql_view;
grant select on chunk_embedding to carrel_sql_view;
