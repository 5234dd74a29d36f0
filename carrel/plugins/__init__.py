"""Interfaces of plugins: the protocols, types, errors and helpers that a plugin needs, one module for each kind.

| module | for plugins in the entry-point group |
| --- | --- |
| ``carrel.plugins.parsers`` | ``carrel.parsers`` |
| ``carrel.plugins.chunkers`` | ``carrel.chunkers`` |
| ``carrel.plugins.embedders`` | ``carrel.embedders`` |
| ``carrel.plugins.extractors`` | ``carrel.extractors`` |
| ``carrel.plugins.rerankers`` | ``carrel.rerankers`` |
| ``carrel.plugins.strategies`` | ``carrel.strategies`` |
| ``carrel.plugins.transformers`` | ``carrel.transformers`` |

The implementation is in ``app``; these modules only give public names to it. ``__all__`` of each module is the whole
interface: it stays compatible within a minor version. The guide with one working plugin of each kind is
docs/how-to/write-a-plugin.md.
"""
