"""Clients of models: embedding, chat, vision and rerank. No other package imports openai or onnxruntime."""
