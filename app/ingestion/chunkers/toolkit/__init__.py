"""Tools that chunkers share: splitting, packing, regions, drafts and token estimates."""
