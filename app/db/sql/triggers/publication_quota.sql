-- Limit the rows of publication by the quota `publications`.
create or replace trigger publication_quota after insert on publication
  referencing new table as new_rows
  for each statement
  execute function check_publication_quota('publications');
