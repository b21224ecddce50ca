# SPDX-License-Identifier: Apache-2.0
"""Second process of test_ipc.py: says what it finds in each buffer that it is sent, and adds 100 to it."""

import socket
import sys

import weir

link = socket.socket(fileno=int(sys.argv[1]))
arrival = weir.Stream(weir.host_device())
while True:
    try:
        descriptor = weir.ipc.receive(link)
    except weir.Error as error:
        sys.exit(0 if error.condition == weir.Errc.peer_gone else f"child: {error}")
    try:
        with weir.ipc.open(descriptor, stream=arrival) as buffer:
            stream = weir.Stream(buffer.device)
            stream.wait(arrival.record())
            found = bytearray(buffer.size)
            buffer.copy_to(found, stream=stream)
            stream.synchronize()
            values = set(found)
            assert len(values) == 1, values
            buffer.fill(values.copy().pop() + 100, stream=stream)
            stream.synchronize()
            answer = f"{buffer.size} bytes of {values.pop()}"
    except (weir.Error, AssertionError) as error:
        answer = f"{type(error).__name__}: {error}"
    link.sendall(answer.encode())
