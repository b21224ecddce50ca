# SPDX-License-Identifier: Apache-2.0
"""Buffers between processes.

    weir.ipc.send(socket, buffer.ipc_descriptor(stream=stream))          # one process
    buffer = weir.ipc.open(weir.ipc.receive(socket), stream=stream)      # the other
"""

from ._weir import ipc as _ipc

Descriptor = _ipc.Descriptor
open = _ipc.open
receive = _ipc.receive
send = _ipc.send

__all__ = ["Descriptor", "open", "receive", "send"]
