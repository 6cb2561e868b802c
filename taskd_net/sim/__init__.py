"""Stand-ins for development: nothing of the product imports them. They need the extra `sim`."""
