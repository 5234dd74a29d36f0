-- Limit the rows of sql_view by the quota `sql_views`.
create or replace trigger sql_view_quota after insert on sql_view
  referencing new table as new_rows
  for each statement
  execute function check_sql_view_quota('sql_views');
