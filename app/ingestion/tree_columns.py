"""Columns of the rows of a document tree: nodes, and pages with the positions of their lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from app.ingestion.types import LineLayout, TreeNode


def build_node_params(nodes: Sequence[TreeNode], node_ids: Mapping[tuple[int, ...], UUID]) -> dict[str, Any]:
    """Return the rows of nodes as one array for each column.

    Args:
        nodes: The nodes, in reading order.
        node_ids: Ids of the nodes, by their path.
    """
    return {
        "ids": [node_ids[node.path] for node in nodes],
        "parents": [node_ids[node.path[:-1]] if node.path else None for node in nodes],
        "ordinals": list(range(len(nodes))),
        "kinds": [node.kind.value for node in nodes],
        "levels": [node.level for node in nodes],
        "titles": [node.title for node in nodes],
        "starts": [node.start for node in nodes],
        "ends": [node.end for node in nodes],
        "pages": [node.page for node in nodes],
        "page_ends": [node.page_end for node in nodes],
        "slides": [node.slide for node in nodes],
        "blocks": [node.block.value if node.block else None for node in nodes],
    }


def build_page_params(line_layouts: Mapping[int, LineLayout]) -> dict[str, Any]:
    """Return the rows of pages as one array for each column.

    Args:
        line_layouts: Position of the lines, by page number.
    """
    return {
        "pages": list(line_layouts),
        "widths": [page.width / 10 for page in line_layouts.values()],
        "heights": [page.height / 10 for page in line_layouts.values()],
        "starts": [format_array(page.lines[::6]) for page in line_layouts.values()],
        "ends": [format_array(page.lines[1::6]) for page in line_layouts.values()],
        "boxes": [format_array(_extract_boxes(page.lines)) for page in line_layouts.values()],
    }


def _extract_boxes(lines: Sequence[int]) -> list[int]:
    """Return the boxes of lines: the last four of every six numbers."""
    return [number for index, number in enumerate(lines) if index % 6 > 1]


def format_array(values: Iterable[float]) -> str:
    """Format a Postgres array as text. The driver sends long arrays slowly, and rows of unequal length not at all."""
    return "{" + ",".join(map(str, values)) + "}"
