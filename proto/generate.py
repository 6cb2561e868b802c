"""Generate the protobuf modules of `taskd_net/net/wire` from the `.proto` files beside this script.

    generate.py            write taskd_net/net/wire/*_pb2.py and *_pb2.pyi
    generate.py --check    write nothing; exit 1 with a diff if the modules there are not what would be written

Run it with the pinned tools, that is with `make proto` and `make proto-check`: generated code refuses a runtime
that is older than the tools that made it, so the tools are the oldest that the library supports.

The files in `proto/` are the public ones. What is compiled is a copy with two changes:

- A package of ours is put in where the public file has none, or that of somebody else. Message names are registered in
  one descriptor pool per process, and this library lives inside other people's training scripts: a global `Ack` or
  `Message` collides with anybody else's, and TaskD's own client of ClusterD may be there too. The name of a message's
  package is not on the wire, so the bytes are the same.
- The `service` is taken out. The transport registers its methods by name and takes raw bytes, so there are no
  stubs to generate; and a service inside the package would have another path than `/TaskNet/…`.

The public files of a node's own services are written into `public.binpb` as descriptors: the answer to a caller that
asks by reflection for the calls of a node. ClusterD's services are left out, because no node serves them.

The copy lies at `taskd_net/net/wire/` in the include path, so that the modules import each other by their full name.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROTO = Path(__file__).resolve().parent
ROOT = PROTO.parent
WIRE = Path("taskd_net/net/wire")
DESCRIPTORS = WIRE / "public.binpb"

CLIENT_OF = {
    "datatrace.proto": "taskd_net.clusterd",
    "etcd.proto": "taskd_net.etcd",
    "recover.proto": "taskd_net.clusterd",
}
"""Files with services of others, of which this package is a client, and our packages for their messages."""

_SYNTAX = re.compile(r'^syntax = "proto3";$', re.MULTILINE)
_PACKAGE = re.compile(r"^package ", re.MULTILINE)
_FOREIGN_PACKAGE = re.compile(r"^package (?!taskd_net)[\w.]+;$", re.MULTILINE)
# Ends at the first line that is a closing brace alone: that of the service, as its members are indented.
_SERVICE = re.compile(r"^service \w+ \{$.*?^\}$", re.MULTILINE | re.DOTALL)


def embedded(source: str, package: str) -> str:
    """Return the public proto file `source` as it is compiled: in a package of ours, without services."""
    source = _FOREIGN_PACKAGE.sub(f"package {package};", source)
    if not _PACKAGE.search(source):
        source, found = _SYNTAX.subn(rf"\g<0>\npackage {package};", source)
        if found != 1:
            raise SystemExit('generate.py: expected exactly one line `syntax = "proto3";`')
    source = _SERVICE.sub("", source)
    if re.search(r"^\s*service\b", source, re.MULTILINE):
        raise SystemExit("generate.py: a service is not laid out as expected and was not taken out")
    return source


def generate() -> dict[Path, bytes]:
    """Compile every public proto file; return the generated modules by their path below the root."""
    with tempfile.TemporaryDirectory() as scratch:
        include, out = Path(scratch, "include"), Path(scratch, "out")
        (include / WIRE).mkdir(parents=True)
        out.mkdir()
        names = []
        for proto in sorted(PROTO.glob("*.proto")):
            name = WIRE / proto.name
            package = CLIENT_OF.get(proto.name, "taskd_net.wire")
            (include / name).write_text(embedded(proto.read_text(encoding="utf-8"), package), encoding="utf-8")
            names.append(name.as_posix())
        compiler = [sys.executable, "-m", "grpc_tools.protoc"]
        subprocess.run([*compiler, f"-I{include}", f"--python_out={out}", f"--pyi_out={out}", *names], check=True)
        public = [f"-I{PROTO}", *(proto.name for proto in sorted(PROTO.glob("*.proto")) if proto.name not in CLIENT_OF)]
        subprocess.run([*compiler, f"--descriptor_set_out={out / DESCRIPTORS}", *public], check=True)
        return {path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*.*"))}


def check(generated: dict[Path, bytes]) -> int:
    """Compare with what lies in the tree; print the differences and return the exit status."""
    files = [*(ROOT / WIRE).glob("*_pb2*.py*"), *(ROOT / WIRE).glob("*.binpb")]
    present = {path.relative_to(ROOT): path.read_bytes() for path in files}
    stale = 0
    for path in sorted(present.keys() | generated.keys()):
        there, wanted = present.get(path), generated.get(path)
        if there != wanted:
            stale = 1
            old, new = ((text or b"").decode(errors="replace").splitlines(keepends=True) for text in (there, wanted))
            fault = "missing" if there is None else "not generated" if wanted is None else "stale"
            print(f"proto: {path} is {fault}")
            sys.stdout.writelines(difflib.unified_diff(old, new, f"{path} (in the tree)", f"{path} (generated)"))
    print("proto: run `make proto`" if stale else f"proto: {len(generated)} generated files are up to date")
    return stale


def main() -> int:
    """Generate, or check, as the command line says."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--check", action="store_true", help="write nothing, compare with what is there")
    arguments = parser.parse_args()
    generated = generate()
    if arguments.check:
        return check(generated)
    for path, content in generated.items():
        (ROOT / path).write_bytes(content)
        print(f"proto: wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
