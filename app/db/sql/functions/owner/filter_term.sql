-- Return the term of one interval of 16^p_level keys. Level 8 is for values without an order. Two intervals can share a
-- term. Postgres also partitions tables by this hash function, so its results are the same in all versions.
create or replace function filter_term(p_path text, p_level int, p_place bigint) returns int4 language sql immutable strict parallel safe
  return (((hashtextextended(p_path, 0) & 4294967295) + p_level * 1000003 + p_place * 1540483477) & 4294967295)::bit(32)::int4;

revoke all on function filter_term from public;
grant execute on function filter_term to carrel_app, carrel_search;
