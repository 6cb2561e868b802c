"""An asyncio service of the job: at a word to it, every Worker is told to save a checkpoint.

python service.py --upstream 127.0.0.1:9602
taskd-net send Agent/1000 checkpoint
"""

import argparse
import asyncio
import signal

from taskd_net import Body, Message, Node, NodeConfig, Position


async def checkpoint(node: Node, request: Message) -> None:
    """Tell all Workers, and tell the Manager how that went."""
    command = Body("CHECKPOINT", 0, str(request.src))
    ack = await node.send(command.to_json(), to="Worker/All/All")
    outcome = "every Worker has been told" if ack.ok else f"{ack.code} from {ack.src}"
    print(f"{request.src} asked for a checkpoint: {outcome}", flush=True)
    await node.send(Body("CHECKPOINT", ack.code, outcome).to_json(), to=Position.mgr())


async def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    arguments = argparse.ArgumentParser(description="Have all Workers save a checkpoint, when asked to.")
    arguments.add_argument("--upstream", default="127.0.0.1:9602", help="host:port of a Proxy, or of the Manager")
    # The Agent of a node is its launcher: a service takes a rank that no node has, and says that it is none of the job.
    arguments.add_argument("--rank", type=int, default=1000, help="this is Agent/RANK")
    options = arguments.parse_args()

    config = NodeConfig.agent(server_rank=options.rank, upstream=options.upstream, service=True)
    async with Node(config) as node, asyncio.TaskGroup() as tasks:
        await node.joined()
        print(f"{node.position} has joined", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            # Ends the loop below, when what is under way has come to its end.
            asyncio.get_running_loop().add_signal_handler(number, lambda: tasks.create_task(node.drain(5.0)))
        async for message in node.messages():
            if message.body == "checkpoint":
                tasks.create_task(checkpoint(node, message))


if __name__ == "__main__":
    asyncio.run(main())
