"""The links of a node and their bytes: serving children, joining a parent.

Read first: `links/kind.py` (what a kind of link is), `links/session.py` (a link while it stands), `joining/serve.py`
(the parent's part), `joining/join.py` (the child's part), `wire/codec.py` (bytes to messages), `tls/credentials.py`.

It carries out what the Router (`core`) decides, and imports `core` and `base`. A kind of link is one module and one
line in `links/registry.py`.
"""
