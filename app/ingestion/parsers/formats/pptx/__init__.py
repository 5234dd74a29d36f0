"""Parser of PowerPoint files: slides, their shapes, and the parts that they refer to."""
