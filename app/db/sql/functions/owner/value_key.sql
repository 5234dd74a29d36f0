-- Return a key of 32 bits for a value. Keys of numbers sort like the numbers, with 20 bits of mantissa. Keys of
-- instants sort like the instants, in steps of two minutes. Different values can share a key. The tables' owner owns
-- this function, because rows and indexes call it.
create or replace function value_key(p_value jsonb, p_instant bool) returns bigint language plpgsql immutable strict parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
declare d text := p_value #>> '{}';
begin
  if jsonb_typeof(p_value) = 'number' then
    return ('x' || encode(substr(float8send(case when p_value > '1e300' then 1e300 when p_value < '-1e300' then -1e300
        when p_value > '-1e-300' and p_value < '1e-300' then 0 else p_value::float8 end), 1, 4), 'hex'))::bit(32)::bigint
      # case when p_value <= '-1e-300' then 4294967295 else 2147483648 end;
  elsif p_instant then
    return (((substr(d, 1, 4)::bigint * 12 + substr(d, 6, 2)::int) * 31 + substr(d, 9, 2)::int) * 24 + substr(d, 12, 2)::int) * 30
      + substr(d, 15, 2)::int / 2;
  end if;
  return hashtextextended(p_value::text, 0) & 4294967295;
end $f$;

revoke all on function value_key from public;
grant execute on function value_key to carrel_app, carrel_search;
