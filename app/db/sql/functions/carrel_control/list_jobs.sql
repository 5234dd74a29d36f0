-- Return a page of the jobs of the transaction's tenant, newest first, or of all tenants if the transaction has none.
-- Null arguments set no condition. A periodic job that waits for its next time is scheduled. A running job holds a
-- lease. max_running is null without a separate limit of the tenant.
create or replace function list_jobs(p_id uuid, p_state text, p_kind text, p_code text, p_document uuid, p_kb uuid,
                                     p_after timestamptz, p_after_id uuid, p_limit int)
returns table(tenant_id uuid, id uuid, kind text, state text, document_id uuid, kb_id uuid, stage text, attempts int,
              max_attempts int, code text, message text, created_at timestamptz, run_at timestamptz,
              running bigint, max_running int)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select p.tenant_id, p.id, p.kind, p.state, p.document_id, p.kb_id, p.stage, p.attempts, p.max_attempts, p.code,
         p.message, p.created_at, p.run_at,
         case when p.state = 'waiting' then (
           select count(*) from job r
            where r.tenant_id = p.tenant_id and r.state = 'running' and r.kind <> 'send_webhook' and r.every is null)
         end,
         case when p.state = 'waiting' then (
           select l.max_running::int from tenant_queue l where l.tenant_id = p.tenant_id)
         end
    from (
      select j.tenant_id, j.id, j.kind, s.state, j.document_id, k.kb_id,
             case when j.kind = 'ingest_document' then coalesce(d.error ->> 'stage', d.status) end as stage,
             j.attempts, case when j.every is null then j.max_attempts end as max_attempts,
             j.error ->> 'code' as code, j.error ->> 'message' as message, j.created_at, j.run_at
        from job j
        left join document d on d.tenant_id = j.tenant_id and d.id = j.document_id
        cross join lateral (
          select case when j.state = 'dead' then 'failed' when j.state = 'running' then 'running'
                      when j.run_at <= now() then 'waiting' when j.every is not null then 'scheduled'
                      else 'postponed' end as state) s
        cross join lateral (
          select coalesce(d.kb_id, (j.payload ->> 'knowledge_base')::uuid, (
            select i.kb_id from search_index i
             where i.tenant_id = j.tenant_id and i.id = (j.payload ->> 'index')::uuid)) as kb_id) k
       where (current_tenant() is null or j.tenant_id = current_tenant())
         and (p_id is null or j.id = p_id)
         and (p_state is null or s.state = p_state)
         and (p_kind is null or j.kind = p_kind)
         and (p_code is null or j.error ->> 'code' = p_code)
         and (p_document is null or j.document_id = p_document)
         and (p_kb is null or k.kb_id = p_kb)
         and (p_after is null or (j.created_at, j.id) < (p_after, p_after_id))
       order by j.created_at desc, j.id desc limit p_limit) p
   order by p.created_at desc, p.id desc
$f$;

revoke all on function list_jobs from public;
grant execute on function list_jobs to carrel_app;
