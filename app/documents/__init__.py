"""Documents: what people upload, and what is kept of it. The reference room: write the next one like it."""
