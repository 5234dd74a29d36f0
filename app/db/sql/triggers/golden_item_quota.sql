-- Limit the rows of golden_item by the quota `golden_items`.
create or replace trigger golden_item_quota after insert on golden_item
  referencing new table as new_rows
  for each statement
  execute function check_golden_item_quota('golden_items');
