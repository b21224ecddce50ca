# SPDX-License-Identifier: Apache-2.0
"""A writer of a set: held_set_child.py PATH DEVICE KIND. Commits two tensors, says so, and waits to be killed."""

import sys

import weir


def main():
    path, device, kind = sys.argv[1:]
    device = weir.device(device)
    stream = weir.Stream(device)
    resource = weir.make_resource(device, getattr(weir.MemoryKind, kind), exportable=True)
    tensors = {}
    for name, value in (("embedding", 3), ("head", 4)):
        buffer = resource.allocate(4096, stream=stream)
        buffer.fill(value, stream=stream)
        tensors[name] = buffer.view("uint8", (64, 64))
    weir.ipc.SetWriter(path, "weights").commit(tensors, stream=stream, timeout=60)
    print("committed", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    sys.exit(main())
