"""Sampled stacks: omitted, merged and drawn functions."""

from benchmarks import stacks

FOLDED = """\
main (/home/somebody/benchmarks/member.py:9);Node.perform (taskd_net/node/node.py:3) 3
main (/home/somebody/benchmarks/member.py:9);0x7f1 (grpc/_cython/cygrpc.so);0x7f2 (grpc/_cython/cygrpc.so) 1
main (/home/somebody/benchmarks/member.py:9);epoll_wait (libc.so.6) 90
"""


def test_what_waits_is_left_out_and_nameless_functions_are_one() -> None:
    assert stacks.read(FOLDED) == {
        ("main (benchmarks/member.py)", "Node.perform (node/node.py)"): 3,
        ("main (benchmarks/member.py)", "gRPC, native"): 1,
    }


def test_shares_are_of_the_time_on_a_processor() -> None:
    entries = {entry.name: entry for entry in stacks.entries(stacks.read(FOLDED))}

    assert entries["Node.perform (node/node.py)"].own == 0.75
    assert entries["main (benchmarks/member.py)"].own == 0.0
    assert entries["main (benchmarks/member.py)"].total == 1.0


def test_a_flame_graph_names_every_function_and_no_folder_of_the_machine() -> None:
    drawn = stacks.flame_graph(stacks.read(FOLDED), "a <title>", "a caption")

    assert drawn.count("<rect") == 1 + 3
    assert "<title>Node.perform (node/node.py): 75.0%</title>" in drawn
    assert "a &lt;title&gt;" in drawn
    assert "/home" not in drawn
