-- The roles that own the definer functions and hold the service's rights. None of them can log in.
-- carrel_app: what the service's plain login may do. carrel_search, carrel_control: own definer functions and nothing else.
-- carrel_sql_view: owns the SQL views and reads what row-level security shows of their knowledge bases.
do $$ declare r text; begin
  foreach r in array array['carrel_app', 'carrel_search', 'carrel_control', 'carrel_sql_view'] loop
    begin execute format('create role %I nologin', r); exception when duplicate_object then null; end;
    -- A creator has ADMIN, not SET. Functions and views are created under `set role`.
    if r <> 'carrel_app' then execute format('grant %I to %I with inherit false, set true', r, current_user); end if;
  end loop;
  -- A temporary table must not hide one of the service's tables.
  execute format('revoke temporary on database %I from public', current_database());
end $$;
revoke create on schema public from public;
grant usage on schema public to carrel_app, carrel_search, carrel_control, carrel_sql_view;
revoke all on alembic_version from public;
