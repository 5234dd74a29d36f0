-- Raise insufficient_privilege unless p_tenant is the transaction's tenant or the system tenant.
-- Every definer function of carrel_search calls this first, because row-level security does not limit its owner.
create or replace function check_tenant(p_tenant uuid) returns void language plpgsql stable
set search_path = pg_catalog, public, pg_temp as $f$
begin
  if p_tenant is null or current_tenant() is null or (p_tenant <> current_tenant() and p_tenant <> system_tenant()) then
    raise insufficient_privilege using message = 'tenant is not the current one';
  end if;
end $f$;

revoke all on function check_tenant from public;
