"""The Manager of a job, the root of its mesh, prints the reports of the nodes.

It listens on port 9601 of POD_IP, or of 127.0.0.1, until SIGTERM or Ctrl-C:

    POD_IP=10.0.0.7 python manager.py
"""

import signal
import sys
import threading

import taskd_net

STOP = {signal.SIGINT, signal.SIGTERM}


def print_new(seen: dict[object, str]) -> None:
    """Print the new reports. A real job decides on them here."""
    for node, reports in taskd_net.last_reports().items():
        for (kind, code), report in reports.items():
            if seen.get((node, kind, code)) != report.uuid:
                seen[node, kind, code] = report.uuid
                print(node, kind, report.body.message, flush=True)


def main() -> None:
    """Serve the job."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # sigtimedwait below takes them
    if not taskd_net.init_taskd_manager({"job_id": "example", "node_nums": 1, "proc_per_node": 2}):
        sys.exit(1)  # the log says why
    serving = threading.Thread(target=taskd_net.start_taskd_manager)
    serving.start()
    print("serving; `taskd-net proxy` starts the Proxy of a node", flush=True)
    seen: dict[object, str] = {}
    while signal.sigtimedwait(STOP, 0.2) is None:
        print_new(seen)
    print_new(seen)
    taskd_net.destroy_taskd_manager()
    serving.join()


if __name__ == "__main__":
    main()
