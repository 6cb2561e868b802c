"""The decisions of the mesh, without I/O: no grpc, no asyncio, no clock (`now` is an argument).

Read `router` first: it has one method for each event, and `ready` is what comes out. Its parts: `topology` (the routing
rule) with `routes` (which link leads where) and `links` (what is under way on each); `sends` (own messages, until they
are answered); `admission` (which messages may come in); `forwarding` (onto a link, and the answer); `inbox` and `seen`
(delivery, once); `advertisements` (announcements to the parent). `frame` is what travels, `acks` what is awaited.

It imports `base` alone.
"""
