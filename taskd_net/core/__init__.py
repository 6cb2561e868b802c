"""The decisions of the mesh, without I/O: no grpc, no asyncio, no clock (`now` is an argument).

`router.Router` is the whole of it; the other modules are its parts: `topology` (who is where, so where a message goes)
with `routes` (which link leads where) and `links` (who is joined); `acks` (who waits for which answer); `inbox` and
`seen` (what goes in, and only once); `advertisements` (what the parent is told); `actions` (what the node is
told to do); `frame` (what travels).
"""
