-- carrel_search: like the other tables that the search functions read, see baseline/policies.sql
create policy search on chunk_entity for select to carrel_search using (true);
create policy search on entity for select to carrel_search using (true);
create policy search on private_entity_frequency for select to carrel_search using (true);
create policy search on relation for select to carrel_search using (true);
create policy search on entity_alias for select to carrel_search using (true);
grant select on chunk_entity, entity, private_entity_frequency, relation, entity_alias to carrel_search;
