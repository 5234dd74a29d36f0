"""SQL views are allowed by tenant, notifications name nothing, and a receipt knows the database roles that must go.

Revision ID: 0050
Revises: 0049

Columns with constant defaults, one small table and functions: nothing is rewritten. Tenants that have SQL views keep
them. A process of an earlier version does not understand the notifications: it looks at documents every two seconds,
and forgets a revoked key after five.
"""

from app.db.migrate import run_script

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';
alter table tenant add column sql_views boolean not null default false;
update tenant t set sql_views = true where exists (select from publication p where p.tenant_id = t.id);
grant select (sql_views) on tenant to carrel_publication;
drop policy publication on tenant;
create policy publication on tenant for select to carrel_publication using (deleted_at is null and sql_views);
alter table deletion add column publications uuid[] not null default '{}';
"""

# Every login of the database may LISTEN and NOTIFY. What goes through the channels is therefore named by a digest that
# nobody can make or undo without the secret.
NOTIFICATIONS = """
create table notification_secret (secret text not null);
revoke all on notification_secret from public;
insert into notification_secret select gen_random_uuid()::text || gen_random_uuid()::text;
grant select on notification_secret to carrel_app, carrel_control;

create function notification_name(p_name text) returns text language sql stable
set search_path = pg_catalog, public, pg_temp as $f$
  select encode(sha256(convert_to(s.secret || p_name, 'UTF8')), 'hex') from public.notification_secret s
$f$;
revoke all on function notification_name from public;
grant execute on function notification_name to carrel_app, carrel_control;

create or replace function notify_key() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_key', notification_name(to_jsonb(old) ->> tg_argv[0]));
  return null;
end $f$;
create or replace function notify_document() returns trigger language plpgsql
set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_document', notification_name(old.tenant_id || '/' || old.id)
                    || '/' || case when tg_op = 'DELETE' then 'deleted' else new.status end);
  return null;
end $f$;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(NOTIFICATIONS)
