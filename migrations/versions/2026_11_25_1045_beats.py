"""A row for each worker that is alive, jobs that an outage held back, and documents that an outage made fail.

Revision ID: 0048
Revises: 0047

Additions only. A worker of an earlier version has no row: the ready check calls it absent until it is replaced.
"""

from app.db.migrate import run_script, walls

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

# The rows are the system tenant's. A worker writes its own every few seconds, so the table is unlogged.
TABLES = """
set local lock_timeout = '5s';

create unlogged table worker_beat (
  tenant_id uuid not null constraint worker_beat_tenant_id_fkey references tenant on delete cascade,
  name text not null, started_at timestamptz not null default now(), beat_at timestamptz not null default now(),
  constraint worker_beat_pkey primary key (tenant_id, name)) with (fillfactor = 50);
create index job_dead_idx on job (tenant_id, run_at) where state = 'dead';
"""

CONTROL = """
create policy control on worker_beat for select to carrel_control using (true);
grant select on worker_beat to carrel_control;
grant select (error) on document to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- How many workers have given a sign of life within that time.
create function count_workers(p_within interval) returns int
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select count(*)::int from worker_beat w
   where w.tenant_id = system_tenant() and w.beat_at > clock_timestamp() - p_within
$f$;

-- Lets the jobs run now that wait because of this, an error's code; of all tenants. Returns how many there are.
create function resume_jobs(p_code text) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
declare resumed int;
begin
  update job j set run_at = now()
   where j.state = 'ready' and j.run_at > now() and j.error ->> 'code' = p_code;
  get diagnostics resumed = row_count;
  if resumed > 0 then perform pg_notify('carrel_job', ''); end if;
  return resumed;
end $f$;

-- Documents that failed because something was out of reach are tried again: after ten minutes, an hour and six hours.
-- Then they stay as they are, for what fails so often has another reason. Documents are locked before jobs.
create function retry_failed_documents(p_limit int) returns int
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

revoke all on function count_workers, resume_jobs, retry_failed_documents from public;
grant execute on function count_workers, resume_jobs, retry_failed_documents to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("worker_beat"))
    run_script(CONTROL)
    run_script(FUNCTIONS)
