-- Return the terms that find {"path": [...], "equal": ...} or {"path": [...], "low": ..., "high": ...}. One bound may
-- be missing. A range becomes the smallest number of intervals that cover it, at most 30 of each size. Every row that
-- passes has one of the terms. A few other rows have one too, near the bounds or because of a hash collision.
create or replace function lookup_terms(p_lookup jsonb) returns int4[] language plpgsql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
declare path text := (select string_agg(k, chr(31) order by i) from jsonb_array_elements_text(p_lookup -> 'path') with ordinality x(k, i));
  instant bool := p_lookup #>> '{path,0}' = '$instants'; equal jsonb := p_lookup -> 'equal';
  low bigint := coalesce(value_key(p_lookup -> 'low', instant), 0);
  high bigint := coalesce(value_key(p_lookup -> 'high', instant), 4294967295);
  terms int4[] := '{0}';
begin
  if equal is not null then
    return terms || filter_term(path, case when jsonb_typeof(equal) = 'number' then 0 else 8 end, value_key(equal, false));
  end if;
  for l in 0..7 loop
    exit when low > high;
    if l = 7 or low >> 4 = high >> 4 then
      return terms || array(select filter_term(path, l, x) from generate_series(low, high) x);
    end if;
    if low & 15 > 0 then
      terms := terms || array(select filter_term(path, l, x) from generate_series(low, low | 15) x);
      low := (low | 15) + 1;
    end if;
    if high & 15 < 15 then
      terms := terms || array(select filter_term(path, l, x) from generate_series(high & ~15::bigint, high) x);
      high := (high & ~15::bigint) - 1;
    end if;
    low := low >> 4;
    high := high >> 4;
  end loop;
  return terms;
end $f$;

revoke all on function lookup_terms from public;
