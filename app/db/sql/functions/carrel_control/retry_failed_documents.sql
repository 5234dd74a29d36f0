-- Retry documents that failed because a service was unavailable: after ten minutes, one hour and six hours. After that
-- they stay failed. Return their number. Documents are locked before jobs.
create or replace function retry_failed_documents(p_limit int) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
declare retried int;
begin
  with due as materialized (
    select j.tenant_id, j.id, j.document_id, coalesce((j.payload ->> 'retries')::int, 0) as retries
      from job j
      join document d on d.tenant_id = j.tenant_id and d.id = j.document_id
     where j.state = 'dead' and j.kind = 'ingest_document'
       and j.error ->> 'code' in ('embedding_unavailable', 'object_store_unavailable', 'vision_unavailable')
       and d.status = 'failed' and d.version = (j.payload ->> 'version')::int
       and (d.error ->> 'retryable')::boolean
       and coalesce((j.payload ->> 'retries')::int, 0) < 3
       and j.run_at < now() - (array[interval '10 min', '1 h', '6 h'])[coalesce((j.payload ->> 'retries')::int, 0) + 1]
     order by j.run_at limit least(p_limit, 1000)
       for update of d skip locked
  ), documents as (
    update document d set status = 'queued', error = null, progress = null, updated_at = now()
      from due where d.tenant_id = due.tenant_id and d.id = due.document_id
    returning d.tenant_id, d.id
  )
  update job j
     set state = 'ready', attempts = 0, error = null, run_at = now(),
         payload = j.payload || jsonb_build_object('retries', due.retries + 1)
    from due join documents d on d.tenant_id = due.tenant_id and d.id = due.document_id
   where j.tenant_id = due.tenant_id and j.id = due.id and j.state = 'dead';
  get diagnostics retried = row_count;
  if retried > 0 then perform pg_notify('carrel_job', ''); end if;
  return retried;
end $f$;

revoke all on function retry_failed_documents from public;
grant execute on function retry_failed_documents to carrel_app;
