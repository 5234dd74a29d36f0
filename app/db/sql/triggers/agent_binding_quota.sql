-- Limit the rows of agent_binding by the quota `agents`.
create or replace trigger agent_binding_quota after insert on agent_binding
  referencing new table as new_rows
  for each statement
  execute function check_agent_binding_quota('agents');
