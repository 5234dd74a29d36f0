-- Limit the rows of prompt_version by the quota `prompt_versions`.
create or replace trigger prompt_version_quota after insert on prompt_version
  referencing new table as new_rows
  for each statement
  execute function check_prompt_version_quota('prompt_versions');
