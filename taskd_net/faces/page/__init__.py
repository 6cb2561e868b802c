"""The status page: what `taskd-net tree` shows, as a picture in a browser, served by the node itself.

`face/` is the page. `app` makes one HTML document of it, and answers over `taskd_net.faces.side_port`. `feed` decides
what a browser has to be told, `looking` looks at the mesh, and `recorder` keeps its last hour. starlette and uvicorn
come with the extra `page`, and are imported when a page is opened.

Nothing here can change anything: there are three answers, all to GET.
"""

from __future__ import annotations

from taskd_net.faces.page.opening import StatusPage

__all__ = ["StatusPage"]
