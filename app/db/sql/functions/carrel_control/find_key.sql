-- Return the valid API key with this hash, with its tenant and the quotas of both.
create or replace function find_key(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              user_id text, expires_at timestamptz, quotas jsonb, key_quotas jsonb, key_lineage_id uuid)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.user_id, k.expires_at, t.quotas, k.quotas,
         k.key_lineage_id
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null
$f$;

revoke all on function find_key from public;
grant execute on function find_key to carrel_app;
