"""Preview: parse and chunk a file without storing it, and measure the quality of the parse."""
