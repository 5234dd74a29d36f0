"""Periodic jobs in the queue, a tenant's own limit only where it has one, and the list of what has expired.

Revision ID: 0005
Revises: 0004

claim_job takes the usual limit as an argument: a worker of an earlier version claims nothing until it is replaced.
"""

from app.db.migrate import run_script

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table job_lane alter max_running drop not null, alter max_running drop default;
update job_lane set max_running = null where max_running = 2;
create index job_periodic_idx on job (tenant_id, run_at) where every is not null;
grant select (kb_id, expires_at) on document to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

drop function claim_job(text, interval);

-- The tenant with the fewest running jobs first, then the one served longest ago; priority counts within a tenant
-- alone. Periodic jobs are a lane of their own that runs one at a time, outside the system tenant's limit, and has
-- waited since the first of them was due. Tenants are found by a loose index scan; one whose jobs all wait for their
-- time (backoff) is passed over. The advisory lock makes turns and limits exact.
create function claim_job(p_worker text, p_lease interval, p_tenant_concurrency int)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
declare lane record; picked uuid;
begin
  perform pg_advisory_xact_lock(7301);
  for lane in
    with recursive waiting(tenant_id) as (
      (select j.tenant_id from job j where j.state = 'ready' order by j.tenant_id limit 1)
      union all
      select (select j.tenant_id from job j where j.state = 'ready' and j.tenant_id > w.tenant_id
               order by j.tenant_id limit 1)
        from waiting w where w.tenant_id is not null
    ), busy as (
      select r.tenant_id, count(*) filter (where r.every is null) ordinary, count(r.every) periodic
        from job r where r.state = 'running' group by r.tenant_id
    )
    select w.tenant_id, false periodic, coalesce(b.ordinary, 0) running, coalesce(l.last_claim, '-infinity') since
      from waiting w left join busy b on b.tenant_id = w.tenant_id left join job_lane l on l.tenant_id = w.tenant_id
     where w.tenant_id is not null and coalesce(b.ordinary, 0) < coalesce(l.max_running, p_tenant_concurrency)
    union all
    select system_tenant(), true, 0, min(j.run_at) from job j
     where j.tenant_id = system_tenant() and j.every is not null and j.state = 'ready' and j.run_at <= now()
    having min(j.run_at) is not null
       and not exists (select from busy b where b.tenant_id = system_tenant() and b.periodic > 0)
     order by running, since
  loop
    select j.id into picked from job j
     where j.tenant_id = lane.tenant_id and j.state = 'ready' and j.run_at <= now()
       and (j.every is not null) = lane.periodic
     order by j.priority desc, j.run_at, j.id limit 1 for update skip locked;
    exit when found;
  end loop;
  if picked is null then return; end if;
  if not lane.periodic then
    insert into job_lane (tenant_id, last_claim) values (lane.tenant_id, clock_timestamp())
      on conflict (tenant_id) do update set last_claim = excluded.last_claim;
  end if;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = lane.tenant_id and j.id = picked
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts, j.every;
end $f$;

-- Jobs whose worker stopped renewing its lease go back, or die with their document when the attempts are used up.
-- A periodic one never dies: it waits longer each time, up to ten minutes. Documents are locked before jobs, as by
-- whoever deletes or reindexes one; what such a one holds at the moment is left for the next time.
create or replace function reap_jobs()
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, dead boolean)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
declare held uuid[];
begin
  held := array(select d.id from job j join document d on d.tenant_id = j.tenant_id and d.id = j.document_id
                 where j.state = 'running' and j.lease_until < clock_timestamp() for update of d skip locked);
  return query
  with lost as (
    select j.tenant_id, j.id, j.every is null and j.attempts >= j.max_attempts as is_dead from job j
     where j.state = 'running' and j.lease_until < clock_timestamp()
       and (j.document_id is null or j.document_id = any(held)) for update skip locked
  ), put_back as (
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
      from put_back p where p.is_dead and p.kind = 'ingest_document'
       and d.tenant_id = p.tenant_id and d.id = p.document_id and d.version = (p.payload ->> 'version')::int
       and d.status <> 'ready'  -- stored, and only the worker's word for it is missing
  )
  select p.tenant_id, p.id, p.kind, p.document_id, p.is_dead from put_back p;
end $f$;

-- Tenant by tenant, so that the index on (tenant_id, expires_at) is used; those that are being deleted go as a whole.
create function expired_documents(p_limit int)
returns table(tenant_id uuid, kb_id uuid, document_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select t.id, d.kb_id, d.id from tenant t
   cross join lateral (
     select e.kb_id, e.id from document e where e.tenant_id = t.id and e.expires_at <= now()
      order by e.expires_at limit least(p_limit, 1000)) d
   where t.deleted_at is null limit least(p_limit, 1000)
$f$;

revoke all on function claim_job, expired_documents from public;
grant execute on function claim_job, expired_documents to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(FUNCTIONS)
