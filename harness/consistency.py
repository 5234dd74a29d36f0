"""Consistency checks of the search tables: stored counts against counts of the rows.

Tests run them after work that was interrupted.
"""

from uuid import UUID

import asyncpg

# Stored and actual maximum weight of each term in an index.
MAX_WEIGHTS_SQL = """
select b.index_id, b.key, a.max_weight, b.weight
  from (select index_id, key, max(max_weight) max_weight from term_document_frequency group by 1, 2) a
  join (select l.index_id, k.key, max(w.weight[1]::real) weight
          from chunk_lexical l, unnest(l.keys) with ordinality k(key, n),
               regexp_matches(l.terms::text, ':([0-9.e+-]+)', 'g') with ordinality w(weight, n)
         where k.n = w.n group by 1, 2) b on a.index_id = b.index_id and a.key = b.key"""
CONSISTENCY_CHECKS = {
    "document frequencies": """
        select coalesce(a.index_id, b.index_id), a.df, b.df
          from (select index_id, key, sum(df) df from term_document_frequency group by 1, 2 having sum(df) <> 0) a
          full join (select index_id, k as key, count(*) df from chunk_lexical, unnest(keys) k group by 1, 2) b
            on a.index_id = b.index_id and a.key = b.key
         where a.df is distinct from b.df""",
    "private frequencies": """
        with counted as (
          select l.index_id, l.scope_key, k.key, count(*) n
            from chunk_lexical l cross join lateral (select unnest(l.keys) union all select null) k(key)
           where not is_open_level(l.scope_key) group by 1, 2, 3
        ), expected as (
          select index_id, s.scope_key, key, sum(n) n
            from counted c cross join lateral (values (c.scope_key), (all_private_levels())) s(scope_key)
           group by 1, 2, 3
        ), stored as (
          select index_id, scope_key, key, sum(chunks) n from private_frequency group by 1, 2, 3 having sum(chunks) <> 0
        )
        select * from expected w full join stored t on t.index_id = w.index_id and t.scope_key = w.scope_key
           and t.key is not distinct from w.key
         where t.n is distinct from w.n""",
    "entities": """
        with expected as (
          select e.index_id, k.key, count(*) chunks,
                 count(*) filter (where substr(e.kinds, k.n::int, 1) in ('t', 's', 'h')) titles
            from chunk_entity e, unnest(e.keys) with ordinality k(key, n) group by 1, 2
        ), stored as (
          select index_id, key, sum(chunks) chunks, sum(titles) titles, max(name) as name from entity group by 1, 2
          having sum(chunks) <> 0 or sum(titles) <> 0
        )
        select * from expected w full join stored t on t.index_id = w.index_id and t.key = w.key
         where t.chunks is distinct from w.chunks or t.titles is distinct from w.titles or t.name is null""",
    "private entity frequencies": """
        with counted as (
          select e.index_id, e.scope_key, k.key, count(*) n from chunk_entity e, unnest(e.keys) k(key)
           where not is_open_level(e.scope_key) group by 1, 2, 3
        ), expected as (
          select index_id, s.scope_key, key, sum(n) n
            from counted c cross join lateral (values (c.scope_key), (all_private_levels())) s(scope_key)
           group by 1, 2, 3
        ), stored as (
          select index_id, scope_key, key, sum(chunks) n from private_entity_frequency group by 1, 2, 3
          having sum(chunks) <> 0
        )
        select * from expected w
          full join stored t on t.index_id = w.index_id and t.scope_key = w.scope_key and t.key = w.key
         where t.n is distinct from w.n""",
    "entities of chunks": """
        select e.chunk_id from chunk_entity e
          join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (e.tenant_id, e.index_id, e.chunk_id)
          join search_index i on (i.tenant_id, i.id) = (e.tenant_id, e.index_id)
         where l.scope_key <> e.scope_key or i.graph is null or cardinality(e.keys) <> cardinality(e.counts)
            or cardinality(e.keys) <> cardinality(e.names) or cardinality(e.keys) <> length(e.kinds)
            or e.keys <> array(select distinct k from unnest(e.keys) k order by k)""",
    "relations": """
        select r.chunk_id, r.ordinal from relation r
          left join chunk_entity e on (e.tenant_id, e.index_id, e.chunk_id) = (r.tenant_id, r.index_id, r.chunk_id)
         where e.chunk_id is null or not e.keys @> array[r.subject_key, r.object_key]""",
    "greatest weights": f"{MAX_WEIGHTS_SQL} where b.weight > a.max_weight",
    "totals": """
        select coalesce(a.index_id, b.index_id), a.chunks, b.chunks, a.tokens, b.tokens
          from (select index_id, sum(chunks) chunks, sum(tokens) tokens from index_totals group by 1
                having sum(chunks) <> 0 or sum(tokens) <> 0) a
          full join (select index_id, count(*) chunks, sum(dl) tokens from chunk_lexical group by 1) b
            on a.index_id = b.index_id
         where a.chunks is distinct from b.chunks or a.tokens is distinct from b.tokens""",
    "lanes": """
        select c.document_id, c.ordinal from chunk c
          left join chunk_lexical l on (l.tenant_id, l.index_id, l.chunk_id) = (c.tenant_id, c.index_id, c.id)
          left join chunk_embedding e on (e.tenant_id, e.index_id, e.chunk_id) = (c.tenant_id, c.index_id, c.id)
         where l.chunk_id is null or e.chunk_id is null""",
    "chunks": """
        select d.id, d.status, d.chunk_count, count(c.id) from document d
          left join (chunk c join search_index i
                       on i.tenant_id = c.tenant_id and i.id = c.index_id and i.state = 'live')
            on c.tenant_id = d.tenant_id and c.document_id = d.id and c.version = d.live_version
         group by d.tenant_id, d.id having count(c.id) <> d.chunk_count""",
    "versions": """
        select c.document_id, c.version, d.live_version from chunk c
          join document d on (d.tenant_id, d.id) = (c.tenant_id, c.document_id)
         where c.version is distinct from d.live_version""",
    "texts": """
        select d.id from document d left join document_text t on (t.tenant_id, t.document_id) = (d.tenant_id, d.id)
         where d.live_version is distinct from t.version""",
    "trees": """
        select d.id, count(n.id) from document d left join node n on (n.tenant_id, n.document_id) = (d.tenant_id, d.id)
         group by d.tenant_id, d.id having (count(n.id) > 0) <> (d.live_version is not null)""",
}


async def find_inconsistencies(url: str, tenant_id: UUID | None = None) -> dict[str, list[asyncpg.Record]]:
    """Run all checks in one snapshot.

    Args:
        url: Address of the database. The role that owns the tables checks the rows of all tenants.
        tenant_id: Tenant whose rows the service's role checks. Tests that share a database need it, since other tests
            plant faults.

    Returns:
        The inconsistent rows by check; empty if all checks pass.
    """
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            if tenant_id is not None:
                await connection.execute("select set_config('app.tenant_id', $1, true)", str(tenant_id))
            result = {name: await connection.fetch(sql) for name, sql in CONSISTENCY_CHECKS.items()}
    finally:
        await connection.close()
    return {name: rows for name, rows in result.items() if rows}
