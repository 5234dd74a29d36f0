"""Carrel: one service in one package; doors on top, feature rooms in the middle, tools at the bottom.

Every import points down: ``cli`` and ``worker`` start things, ``api`` speaks HTTP, ``bootstrap`` wires,
``retrieval`` and ``ingestion`` do the work over ``documents``, ``knowledge_bases`` and ``tenants``, which stand on
``inference``, ``object_store``, ``job_queue`` and ``db``. The map with the straight line drawn: docs/architecture.md.
"""

import os

# onnxruntime reports to its vendor unless this variable is set before its import; child processes inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

__version__ = "0.1.0"
