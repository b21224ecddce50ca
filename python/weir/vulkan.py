# SPDX-License-Identifier: Apache-2.0
"""An application that has a VkDevice of its own.

    device = weir.vulkan.adopt(instance=..., physical_device=..., device=..., queue_family=0,
                               queues=[(queue, threading.Lock())], timeline_semaphore=True)
    ...                              # streams, pools and buffers of `device`
    weir.vulkan.release(device)      # now the application may destroy its VkDevice
"""

from ._weir import vulkan as _vulkan

NativeBuffer = _vulkan.NativeBuffer
NativeStream = _vulkan.NativeStream
adopt = _vulkan.adopt
native = _vulkan.native
release = _vulkan.release
wait = _vulkan.wait
wrap = _vulkan.wrap

__all__ = ["NativeBuffer", "NativeStream", "adopt", "native", "release", "wait", "wrap"]
