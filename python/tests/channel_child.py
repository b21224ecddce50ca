# SPDX-License-Identifier: Apache-2.0
"""The other end of a channel: channel_child.py FILE DEVICE KIND. Takes buffers whose payload is a number, adds it to
each byte, and answers with a buffer of its own that has the same bytes, until the channel ends."""

import sys

import weir


def main():
    channel = weir.ipc.Channel(int(sys.argv[1]))
    device = weir.device(sys.argv[2])
    stream = weir.Stream(device)
    resource = weir.make_resource(device, getattr(weir.MemoryKind, sys.argv[3]), exportable=True)
    while True:
        try:
            buffer, payload = channel.receive(stream=stream, timeout=60)
        except weir.Error as error:
            return 0 if error.condition == weir.Errc.peer_gone else 1
        data = bytearray(buffer.size)
        buffer.copy_to(data, stream=stream)
        stream.synchronize()
        data = bytes((value + int(payload)) % 256 for value in data)
        buffer.copy_from(data, stream=stream)
        buffer.close()
        with resource.allocate(len(data), stream=stream) as answer:
            answer.copy_from(data, stream=stream)
            channel.send(answer, stream=stream, payload=b"done")


if __name__ == "__main__":
    sys.exit(main())
