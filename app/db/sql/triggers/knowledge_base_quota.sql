-- Limit the rows of knowledge_base by the quota `knowledge_bases`.
create or replace trigger knowledge_base_quota after insert on knowledge_base
  referencing new table as new_rows
  for each statement
  execute function check_knowledge_base_quota('knowledge_bases');
