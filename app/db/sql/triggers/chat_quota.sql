-- Limit the rows of chat by the quota `chats`.
create or replace trigger chat_quota after insert on chat
  referencing new table as new_rows
  for each statement
  execute function check_chat_quota('chats');
