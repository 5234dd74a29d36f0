"""Parts of Excel workbooks that the library python-calamine does not read: formats, comments, links and drawings."""
