"""Models: embedding today; the only home of the openai and onnxruntime packages."""
