"""Include ``parent_summaries``: summaries of the sections above a chunk, outermost first."""

from app.graph.includes.include import Include
from app.section_notes.loader import load_parent_summaries

INCLUDE = Include("parent_summaries", load_parent_summaries)
