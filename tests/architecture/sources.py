"""The syntax trees of the project's modules, each parsed once for all tests of this package."""

import ast
from functools import cache
from pathlib import Path


@cache
def parse(module: Path) -> ast.Module:
    """Return the syntax tree of a module. Tests share it, so none may change it."""
    return ast.parse(module.read_text())


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes below a node, as ``ast.walk`` does. The nodes of a module are listed once."""
    if not isinstance(tree, ast.Module):
        return list(ast.walk(tree))
    nodes: list[ast.AST] | None = getattr(tree, "all_nodes", None)
    if nodes is None:
        nodes = list(ast.walk(tree))
        tree.all_nodes = nodes  # type: ignore[attr-defined]
    return nodes
