"""SQL statements that compute the expanded ranges of hits and read their texts."""

from app.db.statements import parse_statement

_CANDIDATES = """near as (
  select k.* from unnest(:numbers::int[], :tenants::uuid[], :indexes::uuid[], :documents::uuid[], :starts::int[],
                         :ends::int[], :pages::int[], :last_pages::int[], :near::uuid[])
                  k(number, tenant_id, index_id, document_id, first, last, page, page_end, id)
)"""
# The range around a hit, cut to the maximum length with the chunk in the middle. The chunk itself is never cut.
_EXPANDED = f"""
with {_CANDIDATES}, wide as ({{wide}}
), limited as (
  select w.*, greatest(:most::int, w.last - w.first) as most from wide w
), cut as (
  select l.number, l.most, l.wide_last,
         greatest(l.wide_first, least(l.first - (l.most - (l.last - l.first)) / 2, l.wide_last - l.most)) as start
    from limited l
)
select c.number, c.start, least(c.wide_last, c.start + c.most) from cut c"""  # noqa: S608  (constants)
_NEIGHBOURS = """
  select n.number, n.first, n.last,
         least(n.first, min(c.start_offset)) as wide_first, greatest(n.last, max(c.end_offset)) as wide_last
    from near n
   cross join lateral (select c.start_offset, c.end_offset from chunk c
                        where c.tenant_id = n.tenant_id and c.index_id = n.index_id and c.id = n.id offset 0) c
   group by n.number, n.first, n.last"""
_SMALLEST_NODE = """
  select distinct on (n.number) n.number, n.first, n.last, o.start_offset as wide_first, o.end_offset as wide_last
    from near n
   cross join lateral (select o.kind, o.start_offset, o.end_offset from node o
                        where o.tenant_id = n.tenant_id and o.document_id = n.document_id and o.id = n.id offset 0) o
   where o.start_offset <= n.first and o.end_offset >= n.last and {fits}
   order by n.number, o.end_offset - o.start_offset"""
# Without a section around the chunk, its section is its page. Paragraphs never cross a page, so they give the range of
# a page.
_SECTION_OR_PAGE = f"""
  select s.number, s.first, s.last, least(s.first, coalesce(p.first, s.wide_first)) as wide_first,
         greatest(s.last, coalesce(p.last, s.wide_last)) as wide_last
    from ({
    _SMALLEST_NODE.replace("{fits}", "o.kind in ('section', 'document')").replace(
        "o.end_offset as wide_last", "o.end_offset as wide_last, o.kind, n.tenant_id, n.document_id, n.page, n.page_end"
    )
}) s
    left join lateral (select min(o.start_offset) as first, max(o.end_offset) as last from node o
                        where s.kind = 'document' and o.tenant_id = s.tenant_id and o.document_id = s.document_id
                          and o.kind = 'paragraph' and o.page between s.page and s.page_end) p on true"""  # noqa: S608  (constants)
EXPAND = {
    kind: parse_statement(_EXPANDED.replace("{wide}", wide))
    for kind, wide in {
        "window": _NEIGHBOURS,
        "section": _SECTION_OR_PAGE,
        "parent": _SMALLEST_NODE.replace("{fits}", "o.end_offset - o.start_offset > n.last - n.first"),
    }.items()
}
# The statement returns all chunks of a document once, and the caller counts them for each parent. A count in SQL would
# read the chunks again for each parent.
PARENT_SPANS = parse_statement(f"""
with {_CANDIDATES}
select n.number, null::uuid as document_id, array_agg(o.start_offset), array_agg(o.end_offset)
  from near n
 cross join lateral (select o.start_offset, o.end_offset from node o
                      where o.tenant_id = n.tenant_id and o.document_id = n.document_id and o.id = n.id offset 0) o
 where o.start_offset <= n.first and o.end_offset >= n.last
   and o.end_offset - o.start_offset > n.last - n.first and o.end_offset - o.start_offset <= :most::int
 group by n.number
union all
select null, d.document_id, array_agg(c.start_offset), array_agg(c.end_offset)
  from (select distinct tenant_id, index_id, document_id from near) d
 cross join lateral (select i.kb_id from search_index i
                      where i.tenant_id = d.tenant_id and i.id = d.index_id offset 0) i
 cross join lateral (select c.start_offset, c.end_offset from chunk c
                      where c.tenant_id = d.tenant_id and c.kb_id = i.kb_id and c.document_id = d.document_id
                        and c.index_id = d.index_id offset 0) c
 group by d.document_id""")  # noqa: S608  (constants)
# The pages of a range are those of the chunks that share a character with it.
PAGES = parse_statement("""
select k.number, min(c.page), max(c.page_end)
  from unnest(:numbers::int[], :tenants::uuid[], :indexes::uuid[], :starts::int[], :ends::int[], :near::uuid[])
       k(number, tenant_id, index_id, first, last, id)
 cross join lateral (select c.start_offset, c.end_offset, c.page, c.page_end from chunk c
                      where c.tenant_id = k.tenant_id and c.index_id = k.index_id and c.id = k.id offset 0) c
 where c.start_offset < k.last and c.end_offset > k.first
 group by k.number""")
STORED_TEXTS = parse_statement("""
select k.id, t.content, t.source_map, t.place_map
  from unnest(:tenants::uuid[], :documents::uuid[], :versions::int[]) k(tenant_id, id, version)
 cross join lateral (select * from document_text t
                      where t.tenant_id = k.tenant_id and t.document_id = k.id and t.version = k.version offset 0) t""")
