"""SQL of reads of entities. Every statement applies corrections and reads only chunks that the caller may read."""

from app.db.document_visibility import ENFORCED_CONDITION, NOT_EXPIRED_CONDITION, READABLE_CONDITION
from app.db.statements import parse_statement

CORRECTED_KEY = "coalesce(split.target_key, merged.target_key, {key})"
"""SQL of the key that counts instead of ``{key}``, with the joins of ``CORRECTIONS``."""

CORRECTIONS = """
  left join entity_alias split on split.tenant_id = :t::uuid and split.kb_id = :kb and split.key = {key}
   and split.document_id = {document}
  left join entity_alias merged on merged.tenant_id = :t and merged.kb_id = :kb and merged.key = {key}
   and merged.document_id is null"""
"""Joins that find the corrections of a key in a document: a split, or else a merge."""

IS_READABLE = f"""
document.tenant_id = :t and document.kb_id = :kb and {ENFORCED_CONDITION} and {NOT_EXPIRED_CONDITION}
   and (:scope::uuid is null or document.scope_key = :scope) and (:reader::text is null or {READABLE_CONDITION})"""
"""Condition of rows of ``document`` that the caller reads. ``:scope`` and ``:reader`` are null for no condition."""

_CHUNK = """
  join chunk c on c.tenant_id = :t::uuid and c.index_id = e.index_id and c.id = e.chunk_id
  join document on document.tenant_id = c.tenant_id and document.kb_id = c.kb_id and document.id = c.document_id
   and document.live_version = c.version"""
_MENTION = f"""
  select {CORRECTED_KEY.format(key="k.key")} as key, coalesce(split.target_key, k.key) as member_key,
         coalesce(split.target_name, e.names[k.n]) as name, substr(e.kinds, k.n::int, 1) as kind, e.types[k.n] as type,
         e.chunk_id"""
_MENTIONS = f"""
  from chunk_entity e
 cross join lateral unnest(e.keys) with ordinality k(key, n){_CHUNK}
{CORRECTIONS.format(key="k.key", document="c.document_id")}
 where e.tenant_id = :t and e.index_id = :i and {IS_READABLE}"""
_SUMMARY = """
  select key, member_key, count(distinct chunk_id)::int as chunks,
         (count(distinct chunk_id) filter (where kind in ('t', 's', 'h')))::int as titles,
         mode() within group (order by name) as name, string_agg(distinct kind, '') as kinds,
         mode() within group (order by type) as type
    from mention where key = any(:keys::int[])
   group by grouping sets ((key), (key, member_key))"""

LIST_NAMES = parse_statement("""
select name, key from entity
 where tenant_id = :t and index_id = :i and name is not null and name ~>=~ :low::text and name ~<~ :high::text
   and name ~>~ :after::text
   and not exists (select from unnest(:patterns::text[]) p(pattern) where strpos(' ' || name, p.pattern) = 0)
 order by name using ~<~ limit :limit""")
"""Names of entities in the order of bytes. A name occurs once for each change that maintenance has not merged."""

COUNT_CHUNKS = parse_statement("""
select key, sum(chunks)::int as chunks, sum(titles)::int as titles from entity
 where tenant_id = :t and index_id = :i and key = any(:keys::int[]) group by key having sum(chunks) > 0""")
"""Numbers of all chunks of entities, also of chunks that the caller may not read."""

HAS_EXPIRED_DOCUMENTS = parse_statement("""
select exists (select from document where tenant_id = :t and expires_at <= now() and kb_id = :kb) as has_expired""")

SUMMARIZE = parse_statement(f"""
with mention as ({_MENTION}{_MENTIONS} and e.keys && :raw_keys::int[] and k.key = any(:raw_keys)){_SUMMARY}""")
"""Summaries of entities (``member_key`` null) and of the entities that corrections lead to them."""

SUMMARIZE_SAMPLE = parse_statement(f"""
with mention as (
  select m.* from unnest(:raw_keys::int[]) r(key)
   cross join lateral ({_MENTION}{_MENTIONS}
     and e.keys @> array[r.key] and k.key = r.key limit :limit) m
){_SUMMARY}""")  # noqa: S608
"""Summaries from a few chunks of each entity."""

LIST_CHUNKS = parse_statement(f"""
select distinct on (c.document_id, c.ordinal) c.id, c.document_id, document.source, c.ordinal, e.counts[k.n] as count,
       coalesce(split.target_name, e.names[k.n]) as name, c.content{_MENTIONS}
   and e.keys && :raw_keys::int[] and k.key = any(:raw_keys) and {CORRECTED_KEY.format(key="k.key")} = :key
   and (:after_document::uuid is null or (c.document_id, c.ordinal) > (:after_document::uuid, :after_ordinal::int))
 order by c.document_id, c.ordinal, e.counts[k.n] desc limit :limit""")

FIND_NEIGHBOURS = parse_statement(f"""
with own as materialized (
  select distinct e.chunk_id{_MENTIONS} and e.keys && :raw_keys::int[] and k.key = any(:raw_keys)
     and {CORRECTED_KEY.format(key="k.key")} = :key
   limit :max_chunks
), neighbour as (
  select {CORRECTED_KEY.format(key="k.key")} as key, count(distinct e.chunk_id)::int as shared
    from own join chunk_entity e on e.tenant_id = :t and e.index_id = :i and e.chunk_id = own.chunk_id
    join chunk c on c.tenant_id = e.tenant_id and c.index_id = e.index_id and c.id = e.chunk_id
   cross join lateral unnest(e.keys) k(key)
{CORRECTIONS.format(key="k.key", document="c.document_id")}
   group by 1
)
select n.key, n.shared, count(*) over ()::int as degree, (select count(*) from own)::int as chunks
  from neighbour n where n.key <> :key order by n.shared desc, n.key limit :limit""")  # noqa: S608

_RELATION_KEYS = " ".join(
    f"""
  left join entity_alias {side}_split on {side}_split.tenant_id = :t::uuid and {side}_split.kb_id = :kb
   and {side}_split.key = r.{side}_key and {side}_split.document_id = c.document_id
  left join entity_alias {side}_merge on {side}_merge.tenant_id = :t and {side}_merge.kb_id = :kb
   and {side}_merge.key = r.{side}_key and {side}_merge.document_id is null"""
    for side in ("subject", "object")
)
_RELATION_ENDS = ", ".join(
    f"coalesce({side}_split.target_key, {side}_merge.target_key, r.{side}_key) as {side}_key"
    for side in ("subject", "object")
)
LIST_RELATIONS = parse_statement(f"""
with evidence as (
  select {_RELATION_ENDS}, r.predicate, r.chunk_id
    from relation r
    join chunk c on c.tenant_id = r.tenant_id and c.index_id = r.index_id and c.id = r.chunk_id
    join document on document.tenant_id = c.tenant_id and document.kb_id = c.kb_id and document.id = c.document_id
     and document.live_version = c.version{_RELATION_KEYS}
   where r.tenant_id = :t and r.index_id = :i and array[r.subject_key, r.object_key] && :raw_keys::int[]
     and {IS_READABLE}
)
select subject_key, object_key, predicate, count(distinct chunk_id)::int as chunks from evidence
 where (subject_key = :key or object_key = :key) and subject_key <> object_key
 group by 1, 2, 3 order by 4 desc, 1, 2, 3 limit :limit""")  # noqa: S608

GRAPH_MENTIONS = parse_statement(f"""
select {CORRECTED_KEY.format(key="k.key")} as key, coalesce(split.target_name, e.names[k.n]) as name,
       substr(e.kinds, k.n::int, 1) as kind, e.types[k.n] as type, e.counts[k.n] as count, c.id as chunk_id
  from chunk c
  join chunk_entity e on e.tenant_id = c.tenant_id and e.index_id = c.index_id and e.chunk_id = c.id
 cross join lateral unnest(e.keys) with ordinality k(key, n)
{CORRECTIONS.format(key="k.key", document="c.document_id")}
 where c.tenant_id = :t and c.kb_id = :kb and c.index_id = :i and c.document_id = :document and c.version = :version
 order by c.ordinal, k.n limit :limit""")  # noqa: S608
GRAPH_RELATIONS = parse_statement(f"""
select {_RELATION_ENDS}, r.predicate, r.chunk_id
  from chunk c
  join relation r on r.tenant_id = c.tenant_id and r.index_id = c.index_id and r.chunk_id = c.id{_RELATION_KEYS}
 where c.tenant_id = :t and c.kb_id = :kb and c.index_id = :i and c.document_id = :document and c.version = :version
 order by c.ordinal, r.ordinal limit :limit""")  # noqa: S608
LIST_CORRECTED_KEYS = parse_statement("""
select key, target_key, document_id is not null as is_split, target_name
  from entity_alias where tenant_id = :t and kb_id = :kb""")
LIST_KEY_NAMES = parse_statement("""
select key, max(name collate "C") as name from entity
 where tenant_id = :t and index_id = :i and key = any(:keys::int[]) and name is not null group by key""")
