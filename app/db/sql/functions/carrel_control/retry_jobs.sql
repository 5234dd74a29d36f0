-- Make dead jobs of the transaction's tenant, or of all tenants if the transaction has none, due now, and return them.
-- Null arguments set no condition. A failed document is queued again. A webhook delivery is sent again although it was
-- given up. Documents are locked before jobs; without p_id, a locked document is left out.
create or replace function retry_jobs(p_id uuid, p_kind text, p_code text, p_document uuid, p_kb uuid, p_limit int)
returns table(tenant_id uuid, id uuid)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
declare dead_ids uuid[]; document_ids uuid[]; locked_ids uuid[];
begin
  select array_agg(dead.id), array_agg(dead.document_id) into dead_ids, document_ids from (
    select j.id, j.document_id from job j
      left join document d on d.tenant_id = j.tenant_id and d.id = j.document_id
     where j.state = 'dead'
       and (current_tenant() is null or j.tenant_id = current_tenant())
       and (p_id is null or j.id = p_id)
       and (p_kind is null or j.kind = p_kind)
       and (p_code is null or j.error ->> 'code' = p_code)
       and (p_document is null or j.document_id = p_document)
       and (p_kb is null or p_kb = coalesce(d.kb_id, (j.payload ->> 'knowledge_base')::uuid, (
         select i.kb_id from search_index i
          where i.tenant_id = j.tenant_id and i.id = (j.payload ->> 'index')::uuid)))
     order by j.created_at, j.id limit least(p_limit, 1000)) dead;
  if p_id is null then
    locked_ids := array(select d.id from document d
                         where (current_tenant() is null or d.tenant_id = current_tenant())
                           and d.id = any(document_ids) order by d.id for update skip locked);
  else
    locked_ids := array(select d.id from document d
                         where (current_tenant() is null or d.tenant_id = current_tenant())
                           and d.id = any(document_ids) for update);
  end if;
  return query
  with revived as (
    update job j set state = 'ready', attempts = 0, error = null, run_at = now(),
           payload = case when j.kind = 'send_webhook' then j.payload || '{"replay": true}' else j.payload end
     where (current_tenant() is null or j.tenant_id = current_tenant())
       and j.id = any(dead_ids) and j.state = 'dead'
       and (j.document_id is null or j.document_id = any(locked_ids))
    returning j.tenant_id, j.id, j.kind, j.document_id, j.payload
  ), documents as (
    update document d set status = 'queued', error = null, progress = null, updated_at = now()
      from revived r
     where r.kind = 'ingest_document' and d.tenant_id = r.tenant_id and d.id = r.document_id
       and d.version = (r.payload ->> 'version')::int and d.status = 'failed'
  )
  select r.tenant_id, r.id from revived r;
  if found then perform pg_notify('carrel_job', ''); end if;
end $f$;

revoke all on function retry_jobs from public;
grant execute on function retry_jobs to carrel_app;
