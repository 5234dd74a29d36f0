"""Carrel: a multi-tenant service for retrieval-augmented generation.

Every import points down: ``cli`` and ``worker`` start things, ``api`` speaks HTTP, ``bootstrap`` constructs,
``retrieval`` and ``ingestion`` work on ``documents``, ``knowledge_bases`` and ``tenants``, which use ``inference``,
``object_store``, ``jobs`` and ``db``. docs/explanation/architecture.md draws the main line and lists the packages.
"""

import os

# onnxruntime reports to its vendor unless this variable is set before its import; child processes inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
