# SPDX-License-Identifier: Apache-2.0
"""A program with a VkDevice of its own, by ctypes."""

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_uint32, c_uint64, c_void_p


class ApplicationInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("name", c_char_p), ("version", c_uint32), ("engine", c_char_p),
                ("engine_version", c_uint32), ("api", c_uint32)]


class InstanceInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_uint32), ("application", POINTER(ApplicationInfo)),
                ("layers", c_uint32), ("layer_names", c_void_p), ("extensions", c_uint32), ("extension_names", c_void_p)]


class QueueInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_uint32), ("family", c_uint32), ("count", c_uint32),
                ("priorities", POINTER(c_float))]


class TimelineFeature(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("enabled", c_uint32)]


class DeviceInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_uint32), ("queues", c_uint32),
                ("queue_infos", POINTER(QueueInfo)), ("layers", c_uint32), ("layer_names", c_void_p),
                ("extensions", c_uint32), ("extension_names", c_void_p), ("features", c_void_p)]


class BufferInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_uint32), ("size", c_uint64), ("usage", c_uint32),
                ("sharing", c_int), ("families", c_uint32), ("family_indices", c_void_p)]


class Requirements(Structure):
    _fields_ = [("size", c_uint64), ("alignment", c_uint64), ("types", c_uint32)]


class MemoryInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("size", c_uint64), ("memory_type", c_uint32)]


class SemaphoreTypeInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("kind", c_int), ("value", c_uint64)]


class SemaphoreInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("flags", c_uint32)]


class SignalInfo(Structure):
    _fields_ = [("type", c_int), ("next", c_void_p), ("semaphore", c_uint64), ("value", c_uint64)]


class Unavailable(Exception):
    pass


class Application:
    """Its objects live until close()."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libvulkan.so.1")
        except OSError as error:
            raise Unavailable(str(error)) from None
        about = ApplicationInfo(0, api=1 << 22 | 2 << 12)
        self.instance, self.device, self.queue = c_void_p(), c_void_p(), c_void_p()
        self.closing = []
        if self.library.vkCreateInstance(byref(InstanceInfo(1, application=ctypes.pointer(about))), None,
                                         byref(self.instance)):
            raise Unavailable("no VkInstance")
        self.closing.append(lambda: self.library.vkDestroyInstance(self.instance, None))
        count = c_uint32(1)
        self.physical = c_void_p()
        self.call("vkEnumeratePhysicalDevices", self.instance, byref(count), byref(self.physical), fine=(0, 5))
        if not count.value:
            raise Unavailable("no VkPhysicalDevice")
        self.family = 0
        priority = c_float(1)
        queues = QueueInfo(2, family=self.family, count=1, priorities=ctypes.pointer(priority))
        timeline = TimelineFeature(1000207000, enabled=1)
        info = DeviceInfo(3, next=ctypes.addressof(timeline), queues=1, queue_infos=ctypes.pointer(queues))
        self.call("vkCreateDevice", self.physical, byref(info), None, byref(self.device))
        self.closing.append(lambda: self.library.vkDestroyDevice(self.device, None))
        self.library.vkGetDeviceQueue(self.device, c_uint32(self.family), c_uint32(0), byref(self.queue))

    def call(self, name, *arguments, fine=(0,)):
        result = getattr(self.library, name)(*arguments)
        assert result in fine, f"{name}: {result}"

    def close(self):
        for end in reversed(self.closing):
            end()
        self.closing.clear()

    def buffer(self, size):
        """A VkBuffer and its VkDeviceMemory."""
        buffer, memory = c_uint64(), c_uint64()
        self.call("vkCreateBuffer", self.device, byref(BufferInfo(12, size=size, usage=3)), None, byref(buffer))
        self.closing.append(lambda: self.library.vkDestroyBuffer(self.device, buffer, None))
        needs = Requirements()
        self.library.vkGetBufferMemoryRequirements(self.device, buffer, byref(needs))
        lowest = (needs.types & -needs.types).bit_length() - 1
        info = MemoryInfo(5, size=needs.size, memory_type=lowest)
        self.call("vkAllocateMemory", self.device, byref(info), None, byref(memory))
        self.closing.append(lambda: self.library.vkFreeMemory(self.device, memory, None))
        self.call("vkBindBufferMemory", self.device, buffer, memory, c_uint64(0))
        return buffer, memory

    def semaphore(self):
        made = c_uint64()
        kind = SemaphoreTypeInfo(1000207002, kind=1)
        self.call("vkCreateSemaphore", self.device, byref(SemaphoreInfo(9, next=ctypes.addressof(kind))), None,
                  byref(made))
        self.closing.append(lambda: self.library.vkDestroySemaphore(self.device, made, None))
        return made

    def value(self, semaphore):
        out = c_uint64()
        self.call("vkGetSemaphoreCounterValue", self.device, c_uint64(semaphore), byref(out))
        return out.value

    def signal(self, semaphore, value):
        self.call("vkSignalSemaphore", self.device, byref(SignalInfo(1000207005, None, semaphore, value)))
