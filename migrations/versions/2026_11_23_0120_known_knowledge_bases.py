"""A transaction can begin with the condition that knowledge bases are as they were when they were read.

Revision ID: 0037
Revises: 0036

So searches keep what they have read of a knowledge base, and need not read it again before each (ADR 0014).
"""

from app.db.migrate import run_script

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
-- Raises U0001 where a knowledge base, its live search index or the shared one of its name is another row version than when it was read, or is not
-- there. With the rights of its caller, so that it tells of nothing that the caller could not read.
create function require_unchanged(p_tenant uuid, p_ids uuid[], p_states text[]) returns void language plpgsql stable
set search_path = pg_catalog, public, pg_temp as $f$
begin
  if exists (select from unnest(p_ids, p_states) r(id, state) where r.state is distinct from (
      select string_agg(concat_ws(' ', k.xmin, k.ctid, i.xmin, i.ctid), ',' order by k.tenant_id <> p_tenant)
        from knowledge_base k join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
       where k.tenant_id = any(array[p_tenant, system_tenant()]) and k.deleted_at is null
         and k.name = (select o.name from knowledge_base o where o.tenant_id = p_tenant and o.id = r.id))) then
    raise exception using errcode = 'U0001', message = 'a knowledge base is not as it was';
  end if;
end $f$;

revoke all on function require_unchanged from public;
grant execute on function require_unchanged to carrel_app;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
