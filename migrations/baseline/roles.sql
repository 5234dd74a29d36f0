-- The roles that own the definer functions and hold the service's rights. None of them can log in. carrel_app: rights
-- of the service's plain login. carrel_search, carrel_control: own only the definer functions. carrel_sql_view: owns
-- the SQL views. Row-level security limits the rows of knowledge bases that it reads.
do $$ declare r text; begin
  foreach r in array array['carrel_app', 'carrel_search', 'carrel_control', 'carrel_sql_view'] loop
    begin execute format('create role %I nologin', r); exception when duplicate_object then null; end;
    -- The creator of a role has ADMIN, but not SET. Functions and views are created under `set role`.
    if r <> 'carrel_app' then execute format('grant %I to %I with inherit false, set true', r, current_user); end if;
  end loop;
  -- A temporary table must not hide one of the service's tables.
  execute format('revoke temporary on database %I from public', current_database());
end $$;
revoke create on schema public from public;
grant usage on schema public to carrel_app, carrel_search, carrel_control, carrel_sql_view;
revoke all on alembic_version from public;
