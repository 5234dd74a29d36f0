"""Control functions: the closed list of what must cross tenants.

Revision ID: 0003
Revises: 0002

Before a tenant is known (authenticate), or over all of them (list_tenants, claim_job, reap_jobs). All are SECURITY
DEFINER, owned by carrel_control, with typed arguments and a fixed search_path that ends in pg_temp.
"""

from app.db.migrate import run_script

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

create function authenticate(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              created_at timestamptz, expires_at timestamptz)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.created_at, k.expires_at
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null
$f$;

create function list_tenants(p_after timestamptz, p_after_id uuid, p_limit int)
returns table(id uuid, name text, created_at timestamptz, deleted_at timestamptz)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select t.id, t.name, t.created_at, t.deleted_at from tenant t
   where t.id <> system_tenant() and (p_after is null or (t.created_at, t.id) < (p_after, p_after_id))
   order by t.created_at desc, t.id desc limit least(p_limit, 201)
$f$;

-- The tenant with the fewest running jobs first, then the one served longest ago. Tenants are found by a loose index
-- scan; one whose jobs all wait for their time (backoff) does not count. The advisory lock makes the cap exact.
create function claim_job(p_worker text, p_lease interval)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
declare picked record;
begin
  perform pg_advisory_xact_lock(7301);
  with recursive lanes(tenant_id) as (
    (select j.tenant_id from job j where j.state = 'ready' order by j.tenant_id limit 1)
    union all
    select (select j.tenant_id from job j where j.state = 'ready' and j.tenant_id > lanes.tenant_id
            order by j.tenant_id limit 1)
      from lanes where lanes.tenant_id is not null
  ), load as (
    select l.tenant_id, coalesce(jl.last_claim, '-infinity') last_claim, coalesce(jl.max_running, 2) cap,
           (select count(*) from job r where r.tenant_id = l.tenant_id and r.state = 'running') running
      from lanes l left join job_lane jl on jl.tenant_id = l.tenant_id
     where l.tenant_id is not null
       and exists (select 1 from job r where r.tenant_id = l.tenant_id and r.state = 'ready' and r.run_at <= now())
  )
  select c.tenant_id, c.id into picked
    from (select * from load where running < cap order by running, last_claim limit 20) load
    cross join lateral (
      select j.tenant_id, j.id from job j
       where j.tenant_id = load.tenant_id and j.state = 'ready' and j.run_at <= now()
       order by j.priority desc, j.run_at, j.id limit 1 for update skip locked) c
   order by load.running, load.last_claim limit 1;
  if not found then return; end if;
  insert into job_lane (tenant_id, last_claim) values (picked.tenant_id, clock_timestamp())
    on conflict (tenant_id) do update set last_claim = excluded.last_claim;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = picked.tenant_id and j.id = picked.id
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts;
end $f$;

-- Jobs whose worker stopped renewing its lease go back, or die with their document when the attempts are used up.
create function reap_jobs()
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, dead boolean)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
#variable_conflict use_column
begin
  return query
  with lost as (
    select j.tenant_id, j.id, j.attempts >= j.max_attempts as is_dead from job j
     where j.state = 'running' and j.lease_until < clock_timestamp() for update skip locked
  ), put_back as (
    update job j set state = case when l.is_dead then 'dead' else 'ready' end, worker = null, lease_until = null,
           run_at = now(), error = jsonb_build_object('code', 'internal', 'message', 'The worker was lost.')
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

revoke all on function authenticate, list_tenants, claim_job, reap_jobs from public;
grant execute on function authenticate, list_tenants, claim_job, reap_jobs to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
