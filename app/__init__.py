"""Carrel: a multi-tenant service for retrieval-augmented generation.

Imports point down: ``cli`` and ``worker`` start processes, ``api`` speaks HTTP, and ``bootstrap`` constructs services.
``retrieval`` and ``ingestion`` use ``documents``, ``knowledge_bases`` and ``tenants``, which use ``inference``,
``object_store``, ``jobs`` and ``db``. docs/explanation/architecture.md draws the main line and lists the packages.
"""

import os

# onnxruntime sends telemetry to its vendor unless this variable is set before its import. Child processes inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
