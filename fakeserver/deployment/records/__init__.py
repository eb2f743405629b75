"""Records: the events of a deployment and the journal that keeps them."""
