"""The faces of a node: the status page, metrics, and the HTTP port beside the mesh that both answer on.

Read first: `page/opening.py` (the page of a node), `page/feed.py` (what a browser is told), `metrics` and `job_metrics`
(what Prometheus reads), `side_port` (HTTP, and its bounds).

Nothing here changes anything. It imports `node`, `observe` and `base`.
"""
