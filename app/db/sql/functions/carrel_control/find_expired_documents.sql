-- Return documents whose expires_at has passed, without those of deleted tenants and knowledge bases. The query visits
-- one tenant after the other, so that Postgres uses the index on (tenant_id, expires_at).
create or replace function find_expired_documents(p_limit int)
returns table(tenant_id uuid, kb_id uuid, document_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select t.id, d.kb_id, d.id from tenant t
   cross join lateral (
     select e.kb_id, e.id from document e where e.tenant_id = t.id and e.expires_at <= now()
      order by e.expires_at limit least(p_limit, 1000)) d
   where t.deleted_at is null limit least(p_limit, 1000)
$f$;

revoke all on function find_expired_documents from public;
grant execute on function find_expired_documents to carrel_app;
