-- Limit the rows of evaluation by the quota `evaluations`.
create or replace trigger evaluation_quota after insert on evaluation
  referencing new table as new_rows
  for each statement
  execute function check_evaluation_quota('evaluations');
