"""Benchmarks of speed and quality. The service does not import this package."""

import app  # noqa: F401  (it turns the reports of onnxruntime off, before a benchmark imports onnxruntime)
