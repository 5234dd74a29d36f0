"""Walk in the entity graph: from the names of a question and the best hits to chunks that share names with them."""
