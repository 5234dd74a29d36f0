"""SQL that adds the terms of chunks to the counts of a search index, or subtracts them.

All counts are rows that are only added: frequencies of terms, frequencies of private levels, and totals.
"""

ADD_OPEN_COUNTS = """, frequencies as (
  insert into term_document_frequency (tenant_id, index_id, key, df, max_weight)
  select :t::uuid, :i::uuid, u.* from unnest(:df_keys::text::int4[], :df::text::int4[], :max_weights::text::real[]) u
)
insert into index_totals (tenant_id, index_id, chunks, tokens)
select :t::uuid, :i::uuid, count(*), sum(length) from made"""
"""End of a statement whose ``made`` has the ``length`` of each chunk. The parameters have the terms of all chunks."""

ADD_PRIVATE_COUNTS = f""", private as (
  insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
  select :t::uuid, :i::uuid, s.scope_key, u.key, u.chunks
    from (select * from unnest(:df_keys::text::int4[], :df::text::int4[])
          union all select null, count(*)::int from made) u(key, chunks)
   cross join (values (:scope::uuid), (all_private_levels())) s(scope_key)
){ADD_OPEN_COUNTS}"""  # noqa: S608  (constants)
"""End of such a statement for chunks of a private level, ``:scope``. The key null counts all chunks."""


def build_count_subtraction(selection: str) -> str:
    """Return a statement that subtracts chunks. Each row stores its term keys, so the terms are read from the rows.

    Args:
        selection: Query of ``index_id``, ``scope_key``, ``keys`` and ``dl`` of the chunks.
    """
    return f"""
with removed as ({selection}
), totals as (
  insert into index_totals (tenant_id, index_id, chunks, tokens)
  select :t::uuid, index_id, -count(*), -sum(dl) from removed group by index_id
), private_counts as (
  select g.index_id, g.scope_key, k.key, -count(*) as chunks
    from removed g cross join lateral (select unnest(g.keys) union all select null) k(key)
   where not is_open_level(g.scope_key) group by g.index_id, g.scope_key, k.key
), private as (
  insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
  select :t::uuid, a.index_id, s.scope_key, a.key, a.chunks
    from private_counts a cross join lateral (values (a.scope_key), (all_private_levels())) s(scope_key)
)
insert into term_document_frequency (tenant_id, index_id, key, df, max_weight)
select :t::uuid, index_id, k, -count(*), 0 from removed, unnest(keys) k group by index_id, k"""  # noqa: S608  (constants)
