"""The Proxy of a node, started from Python. The daemon `taskd-net proxy` does the same.

python proxy.py --manager 10.0.0.7 --rank 3
"""

import argparse
import signal
import sys

import taskd_net

STOP = {signal.SIGINT, signal.SIGTERM}


def main() -> None:
    """Serve the node until SIGTERM or Ctrl-C."""
    arguments = argparse.ArgumentParser(description="Run the Proxy of a node.")
    arguments.add_argument("--manager", default="127.0.0.1", help="address of the Manager; its port is 9601")
    arguments.add_argument("--listen-port", type=int, default=9602, help="port for the Workers of this node")
    arguments.add_argument("--rank", type=int, default=0, help="rank of this node")
    options = arguments.parse_args()

    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # sigwait below takes them
    config = {"UpstreamAddr": options.manager, "ListenPort": options.listen_port, "ServerRank": options.rank}
    if not taskd_net.init_taskd_proxy(config):
        sys.exit(1)  # the log says why
    # Joins the Manager in the background, whichever of them starts first.
    print(
        f"listening on port {options.listen_port}; `taskd-net mgr` starts its Manager at {options.manager}", flush=True
    )
    signal.sigwait(STOP)
    taskd_net.destroy_taskd_proxy()


if __name__ == "__main__":
    main()
