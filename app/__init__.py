"""Carrel: one service in one package; doors on top, feature rooms in the middle, tools at the bottom.

Every import points down: ``cli`` and ``worker`` start things, ``api`` speaks HTTP, ``bootstrap`` wires,
``retrieval`` and ``ingestion`` do the work over ``documents``, ``knowledge_bases`` and ``tenants``, which stand on
``inference``, ``object_store``, ``job_queue`` and ``db``. The map with the straight line drawn: docs/architecture.md.
"""

__version__ = "0.1.0"
