"""Keys that are narrowed to a user, and whose a chat is.

Revision ID: 0014
Revises: 0013

Additions only. A process of before does not know what such a key may not do: for it there is none.
"""

from app.db.migrate import run_script, walls

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table api_key add user_id text;
-- A chat belongs to the user whose key has put the first document into it.
create table chat (
  tenant_id uuid not null constraint chat_tenant_id_fkey references tenant on delete cascade,
  chat_id text not null, user_id text not null, created_at timestamptz not null default now(),
  constraint chat_pkey primary key (tenant_id, chat_id));
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

create or replace function authenticate(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              created_at timestamptz, expires_at timestamptz)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.created_at, k.expires_at
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null and k.user_id is null
$f$;

create function find_key(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              user_id text, expires_at timestamptz)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.user_id, k.expires_at
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null
$f$;

revoke all on function find_key from public;
grant execute on function find_key to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("chat"))
    run_script(FUNCTIONS)
