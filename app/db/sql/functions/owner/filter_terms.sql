-- Return the terms by which an index finds a chunk's metadata. A number or an instant has one term for each of eight
-- interval sizes. A text or boolean has one term. The algorithm is the trie range of Schindler and Diepenbroek
-- (Computers & Geosciences 34, 2008). A row with more than 1,024 values has the term 0, which every lookup finds. The
-- function is parallel unsafe: starting parallel workers takes longer than reading the rows that the index finds.
create or replace function filter_terms(p_metadata jsonb) returns int4[] language sql immutable strict parallel unsafe cost 100
set search_path = pg_catalog, public, pg_temp as $f$
  with recursive part(path, value, instant) as (
    select e.key, e.value, e.key = '$instants' from jsonb_each(p_metadata) e where jsonb_typeof(e.value) not in ('array', 'null')
    union all
    select p.path || chr(31) || e.key, e.value, p.instant from part p cross join lateral jsonb_each(p.value) e
     where jsonb_typeof(p.value) = 'object' and jsonb_typeof(e.value) not in ('array', 'null')
       and (not p.instant or jsonb_typeof(e.value) = 'object' or e.value::text ~ '^"\d{4}-\d\d-\d\dT\d\d:\d\d')
  ), leaf as (
    select p.path, value_key(p.value, p.instant) as key, p.instant or jsonb_typeof(p.value) = 'number' as ordered
      from part p where jsonb_typeof(p.value) <> 'object' limit 1025
  )
  select case when count(*) > 1024 then '{0}' else array_agg(filter_term(l.path, s.level, l.key >> 4 * (s.level & 7))) end
    from leaf l join generate_series(0, 8) s(level) on l.ordered = (s.level < 8)
$f$;

revoke all on function filter_terms from public;
grant execute on function filter_terms to carrel_app, carrel_search;
