-- Raise U0001 if a knowledge base or its live search index is missing or has another row version than the caller read.
-- The shared knowledge base with the same name is compared too. The function has the caller's rights, so it reveals
-- nothing that the caller cannot read.
create or replace function require_unchanged(p_tenant uuid, p_ids uuid[], p_states text[]) returns void language plpgsql stable
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
