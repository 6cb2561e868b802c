"""An asyncio service of the job: on request, it tells every Worker to save a checkpoint.

python service.py --upstream 127.0.0.1:9602
taskd-net send Agent/1000 checkpoint
"""

import argparse
import asyncio
import signal

from taskd_net import Body, Message, Node, NodeConfig, NodeTimeout, Position


async def checkpoint(node: Node, request: Message) -> None:
    """Tell all Workers, and report the outcome to the Manager."""
    command = Body("CHECKPOINT", 0, str(request.src))
    ack = await node.send(command.to_json(), to="Worker/All/All")
    outcome = "every Worker has been told" if ack.ok else f"{ack.code} from {ack.src}"
    print(f"{request.src} asked for a checkpoint: {outcome}", flush=True)
    await node.send(Body("CHECKPOINT", ack.code, outcome).to_json(), to=Position.mgr())


async def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    arguments = argparse.ArgumentParser(description="On request, have all Workers save a checkpoint.")
    arguments.add_argument("--upstream", default="127.0.0.1:9602", help="host:port of a Proxy, or of the Manager")
    # The Agent of a node is its launcher, so a service takes a rank that no node has. `service`: no rank of the job.
    arguments.add_argument("--rank", type=int, default=1000, help="the service is Agent/RANK")
    options = arguments.parse_args()

    config = NodeConfig.agent(server_rank=options.rank, upstream=options.upstream, service=True)
    async with Node(config) as node, asyncio.TaskGroup() as tasks:
        try:
            await node.joined(timeout=3.0)
        except NodeTimeout as error:
            print(f"{error}; start `taskd-net mgr` and `taskd-net proxy`", flush=True)
            await node.joined()
        print(f"{node.position} has joined", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            # Drains, and then ends the loop below.
            asyncio.get_running_loop().add_signal_handler(number, lambda: tasks.create_task(node.drain(5.0)))
        async for message in node.messages():
            if message.body == "checkpoint":
                tasks.create_task(checkpoint(node, message))


if __name__ == "__main__":
    asyncio.run(main())
