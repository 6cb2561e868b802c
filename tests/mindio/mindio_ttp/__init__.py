"""A double of MindIO's training fault tolerance: the controller, and processors of one line of state each."""
