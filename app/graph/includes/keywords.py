"""Include ``keywords``: keywords of the innermost section of a chunk, best first."""

from app.graph.includes.include import Include
from app.section_notes.loader import load_keywords

INCLUDE = Include("keywords", load_keywords)
