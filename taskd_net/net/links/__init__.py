"""Links: the kinds of link between two nodes, each kind one module."""
