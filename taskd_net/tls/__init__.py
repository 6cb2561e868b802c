"""TLS: which files, what is in them, and how gRPC uses them."""
