-- Put jobs whose worker stopped renewing its lease back into the queue. A job without attempts left dies, and its
-- document fails. A periodic job never dies: it waits longer each time, up to ten minutes. Documents are locked before
-- jobs, in the same order as in deletions and reindexing. A locked document is left for the next call.
create or replace function reap_jobs()
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, dead boolean)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
declare locked_ids uuid[];
begin
  locked_ids := array(select d.id from job j join document d on d.tenant_id = j.tenant_id and d.id = j.document_id
                       where j.state = 'running' and j.lease_until < clock_timestamp() for update of d skip locked);
  return query
  with lost as (
    select j.tenant_id, j.id, j.every is null and j.attempts >= j.max_attempts as is_dead from job j
     where j.state = 'running' and j.lease_until < clock_timestamp()
       and (j.document_id is null or j.document_id = any(locked_ids)) for update skip locked
  ), requeued as (
    update job j set state = case when l.is_dead then 'dead' else 'ready' end, worker = null, lease_until = null,
           run_at = case when j.every is null then now()
                         else now() + least(interval '10 min', interval '1 s' * 4 ^ (least(j.attempts, 9) - 1)) end,
           error = jsonb_build_object('code', 'internal', 'message', 'The worker was lost.')
      from lost l where j.tenant_id = l.tenant_id and j.id = l.id
    returning j.tenant_id, j.id, j.kind, j.document_id, l.is_dead, j.payload
  ), failed as (
    update document d set status = 'failed', progress = null, updated_at = now(),
           error = jsonb_build_object('code', 'internal', 'retryable', true, 'stage', d.status,
             'message', 'Ingestion was given up: every worker that tried it was lost.')
      from requeued p where p.is_dead and p.kind = 'ingest_document'
       and d.tenant_id = p.tenant_id and d.id = p.document_id and d.version = (p.payload ->> 'version')::int
       and d.status <> 'ready'  -- stored, and only the worker's word for it is missing
  )
  select p.tenant_id, p.id, p.kind, p.document_id, p.is_dead from requeued p;
end $f$;

revoke all on function reap_jobs from public;
grant execute on function reap_jobs to carrel_app;
