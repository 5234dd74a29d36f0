-- Limit the rows of golden_set by the quota `golden_sets`.
create or replace trigger golden_set_quota after insert on golden_set
  referencing new table as new_rows
  for each statement
  execute function check_golden_set_quota('golden_sets');
