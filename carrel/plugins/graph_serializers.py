"""Interface for plugins that write the graph of a search's results as one text for a model."""

from app.graph.serializers.serializer import (
    GraphSerializer,
    NamedPassage,
    ResultGraph,
    SharedName,
    StatedRelation,
)

__all__ = ["GraphSerializer", "NamedPassage", "ResultGraph", "SharedName", "StatedRelation"]
