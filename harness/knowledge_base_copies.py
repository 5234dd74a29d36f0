"""SQL that adds many knowledge bases to a tenant."""

ADD_KNOWLEDGE_BASES_SQL = """
with source as (
  select k.tenant_id, k.language, k.chunking, k.retrieval, i.identity, i.dim from knowledge_base k
    join search_index i on i.tenant_id = k.tenant_id and i.kb_id = k.id and i.state = 'live'
   where k.tenant_id = $1 and k.name = 'default'), made as (
  insert into knowledge_base (tenant_id, id, name, language, chunking, retrieval)
  select tenant_id, gen_random_uuid(), 'more-' || n, language, chunking, retrieval from source, generate_series(1, $2) n
  returning tenant_id, id)
insert into search_index (tenant_id, id, kb_id, identity, dim, state)
select m.tenant_id, gen_random_uuid(), m.id, s.identity, s.dim, 'live' from made m, source s"""
"""Adds ``$2`` empty knowledge bases ``more-1``, … to the tenant ``$1``, with the settings of ``default``."""
