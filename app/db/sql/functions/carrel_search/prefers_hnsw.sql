-- Return whether the HNSW index returns p_k rows sooner than an exact scan. HNSW takes 25 us for each of the p_k /
-- p_share rows that it visits. An exact scan takes 0.9 us for each row that an index finds, or 0.6 us for each row of
-- the search index. The result is false for up to 5,000 rows, and for a share below p_k / 10,000, where HNSW would find
-- too few rows.
create or replace function prefers_hnsw(p_total bigint, p_share float8, p_reach float8, p_k int) returns bool language sql immutable
set search_path = pg_catalog, public, pg_temp as $f$
  select p_share * p_total > 5000 and p_k <= 10000 * p_share
     and 25.0 * p_k < p_share * p_total * case when p_reach < 1 then 0.9 * p_reach else 0.6 end
$f$;

revoke all on function prefers_hnsw from public;
