-- Return the default quota of a kind of rows, for tenants without a quota of it. app/principal.py has the same numbers.
create or replace function default_row_quota(p_quota text) returns bigint
language sql immutable parallel safe set search_path = pg_catalog, public, pg_temp as $f$
  select case p_quota
    when 'knowledge_bases' then 1000
    when 'api_keys' then 1000
    when 'agents' then 10000
    when 'prompt_versions' then 10000
    when 'webhooks' then 50
    when 'stored_responses' then 100000
    when 'sql_views' then 100
    when 'files' then 100000
    when 'file_batches' then 100000
    when 'batch_files' then 1000000
    when 'chats' then 1000000
  end::bigint
$f$;

revoke all on function default_row_quota from public;
grant execute on function default_row_quota to carrel_app;
