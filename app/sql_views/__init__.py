"""SQL views: a knowledge base as a database view for agent platforms, with a login that reads only this view."""
