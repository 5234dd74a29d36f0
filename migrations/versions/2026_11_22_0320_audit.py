"""Audit events.

Revision ID: 0021
Revises: 0020

A table of its own, without a foreign key: what was done outlives what it was done to, and the tenant too. The plain role
may add and read, never change or remove; what is older than it is kept for goes through a function that spares a week.
"""

from app.db.migrate import APP_ROLE, run_script

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TABLE = f"""
set local lock_timeout = '5s';

create table audit_event (
  tenant_id uuid not null, created_at timestamptz not null default now(), id uuid not null,
  action text not null, object_type text not null, object_ids uuid[] not null, kb_id uuid, deletion_id uuid,
  counts jsonb not null default '{{}}',
  actor text not null
    constraint audit_event_actor_check check (actor in ('key', 'operator', 'token', 'service', 'unknown')),
  actor_id uuid, actor_name text, request_id text, address text,
  constraint audit_event_pkey primary key (tenant_id, created_at, id));
-- Rows come in the order of their time: it costs an insert nothing, and finds what is old.
create index audit_event_created_at_idx on audit_event using brin (created_at);
create index audit_event_tenants_idx on audit_event (created_at, id) where object_type = 'tenant';

alter table audit_event enable row level security, force row level security;
revoke all on audit_event from public;
create policy owner on audit_event to current_user using (true) with check (true);
-- The operator's list has what was done to tenants, which stands in their own.
create policy read on audit_event for select to {APP_ROLE} using (
  tenant_id = (select current_tenant())
  or object_type = 'tenant' and (select current_tenant()) = (select system_tenant()));
create policy add on audit_event for insert to {APP_ROLE} with check (tenant_id = (select current_tenant()));
create policy find on audit_event for select to carrel_control using (true);
create policy remove on audit_event for delete to carrel_control using (true);
grant select, insert on audit_event to {APP_ROLE};
grant select (tenant_id, created_at, id), delete on audit_event to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Whose a key is that is not valid any more.
create function refused_key(p_key_hash bytea)
returns table(tenant_id uuid, key_id uuid, key_name text)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, k.id, k.name from api_key k where k.key_hash = p_key_hash
$f$;

-- Whoever calls it, and whatever for: the last seven days stay.
create function remove_old_audit_events(p_keep interval, p_limit int)
returns int
language sql security definer set search_path = pg_catalog, public, pg_temp as $f$
  with old as (
    select e.tenant_id, e.created_at, e.id from audit_event e
     where e.created_at < now() - greatest(p_keep, interval '7 days') limit least(p_limit, 10000)
  ), gone as (
    delete from audit_event e using old o
     where (e.tenant_id, e.created_at, e.id) = (o.tenant_id, o.created_at, o.id) returning 1
  ) select count(*)::int from gone
$f$;

revoke all on function refused_key, remove_old_audit_events from public;
grant execute on function refused_key, remove_old_audit_events to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(FUNCTIONS)
