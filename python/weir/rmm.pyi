# SPDX-License-Identifier: Apache-2.0

from typing import Any

from ._weir import Device, MemoryResource

def make_resource(resource: MemoryResource) -> Any:
    """Make an rmm.mr.CallbackMemoryResource. Memory is for the stream that RMM names, and is reused after what the
    stream has when it comes back."""

def from_resource(
    resource: Any, device: Device, *, name: str = "rmm", host_accessible: bool = False
) -> MemoryResource:
    """Make a resource of weir over one of RMM, on which pools, adaptors and Buffers of weir can stand. `device` is the
    one whose memory `resource` has; as RMM asks, it must be the current one whenever memory is allocated. Say
    `host_accessible` for managed and pinned memory. The resource is kept until the last of its memory is given back.
    Memory is allocated on a stream of its own, for which the user's stream waits, and goes back when no use of it is
    left. Each Buffer is a call of RMM, so put a pool over this, or a pool of RMM under it. See make_callback_resource
    for the rest."""
