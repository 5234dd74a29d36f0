"""The doors: thin, each speaking one protocol over the same rooms."""
