# SPDX-License-Identifier: Apache-2.0
"""A reader of a ring: ring_child.py FILE DEVICE. Adds all elements of all frames and prints the sum."""

import sys

import weir


def main():
    consumer = weir.ipc.RingConsumer(int(sys.argv[1]))
    stream = weir.Stream(weir.device(sys.argv[2]))
    total = 0
    while True:
        try:
            frame = consumer.next(stream=stream, timeout=60)
        except weir.Error as error:
            print(total)
            return 0 if error.condition == weir.Errc.peer_gone else 1
        with frame, frame.tensor.buffer as buffer:
            data = bytearray(buffer.size)
            buffer.copy_to(data, stream=stream)
            stream.synchronize()
            total += sum(data)


if __name__ == "__main__":
    sys.exit(main())
