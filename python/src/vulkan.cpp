// SPDX-License-Identifier: Apache-2.0
// weir.vulkan: an application that has a VkDevice of its own, and handles of weir's objects for it. A handle is an int
// or an object of ctypes.

#include "weir/vulkan.hpp"

#include <dlfcn.h>

#include <memory>
#include <optional>
#include <utility>

#include <nanobind/stl/optional.h>

#include "functions.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

#if WEIR_HAS_VULKAN

/// Return the number in an int, or in a number, a pointer or a function of ctypes.
std::uintptr_t number_of(nb::handle object, const char* what) {
  if (is_integer(object)) return address(object, what);
  if (PyUnicode_Check(object.ptr()) != 0 || PyBytes_Check(object.ptr()) != 0)  // ctypes would point into them
    wrong_type(object, what, "an int or a pointer of ctypes");
  const nb::module_ ctypes = nb::module_::import_("ctypes");
  nb::object value = nb::getattr(object, "value", nb::handle());
  try {
    if (!value) value = ctypes.attr("cast")(object, ctypes.attr("c_void_p")).attr("value");
  } catch (const nb::python_error& error) {
    if (!error.matches(ctypes.attr("ArgumentError")) && !error.matches(PyExc_TypeError)) throw;
    wrong_type(object, what, "an int or a pointer of ctypes");
  }
  return value.is_none() ? 0 : address(value, what);
}

template <class Handle>
Handle* handle_of(nb::handle object, const char* what) {
  return reinterpret_cast<Handle*>(number_of(object, what));
}

/// A lock of Python around a queue. Any thread may take it. Once the interpreter has ended, nobody else uses the queue.
class QueueLock {
 public:
  explicit QueueLock(nb::handle lock)
      : acquire_(function_of(nb::getattr(lock, "acquire", nb::none()), "acquire of a queue's lock")),
        release_(function_of(nb::getattr(lock, "release", nb::none()), "release of a queue's lock")) {}

  /// Ctrl-C ends a wait for a lock of Python, and is answered later: the queue has to be taken.
  void lock() {
    if (!Py_IsInitialized()) return;
    const WithGil gil;
    const nb::error_scope exception_of_the_caller;
    bool interrupted = false;
    do {
      locked_ = try_call(*acquire_, interrupted);
    } while (!locked_ && interrupted);
    if (interrupted) PyErr_SetInterrupt();
  }

  void unlock() {
    if (!std::exchange(locked_, false) || !Py_IsInitialized()) return;
    const WithGil gil;
    const nb::error_scope exception_of_the_caller;
    bool interrupted = false;
    try_call(*release_, interrupted);
  }

 private:
  static bool try_call(const Function& function, bool& interrupted) {
    const nb::object callable = function.get();
    if (!callable) return false;
    try {
      call(callable);
      return true;
    } catch (nb::python_error& error) {
      if (error.matches(PyExc_KeyboardInterrupt))
        interrupted = true;
      else
        error.discard_as_unraisable(callable);
      return false;
    }
  }

  const std::shared_ptr<Function> acquire_, release_;
  bool locked_ = false;  // guarded by the lock
};

vulkan::AdoptedQueue queue_of(nb::handle given) {
  if (!PyTuple_Check(given.ptr())) return {handle_of<VkQueue_T>(given, "a queue"), {}, {}};
  if (nb::len(given) != 2) wrong_type(given, "a queue", "a handle or a tuple of a handle and a lock");
  vulkan::AdoptedQueue queue{handle_of<VkQueue_T>(given[0], "a queue"), {}, {}};
  if (given[1].is_none()) return queue;
  const auto lock = std::make_shared<QueueLock>(given[1]);
  queue.lock = [lock] { lock->lock(); };
  queue.unlock = [lock] { lock->unlock(); };
  return queue;
}

/// Return the entry of the loader that programs use.
vulkan::GetInstanceProcAddr entry_of_the_loader() {
  void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);  // stays loaded
  void* const entry = library ? dlsym(library, "vkGetInstanceProcAddr") : nullptr;
  if (!entry)
    throw Error(Errc::unsupported,
                "vulkan.adopt: there is no libvulkan.so.1: pass get_instance_proc_addr of the loader that made the "
                "instance");
  return reinterpret_cast<vulkan::GetInstanceProcAddr>(entry);
}

Device adopt(nb::handle instance, nb::handle physical_device, nb::handle device, nb::handle queues,
             const Int& queue_family, nb::handle get_instance_proc_addr, bool timeline_semaphore,
             bool buffer_device_address, bool external_memory_fd, bool debug_utils) {
  vulkan::AdoptOptions options{
      .instance = handle_of<VkInstance_T>(instance, "instance"),
      .physical_device = handle_of<VkPhysicalDevice_T>(physical_device, "physical_device"),
      .device = handle_of<VkDevice_T>(device, "device"),
      .get_instance_proc_addr = get_instance_proc_addr.is_none()
                                    ? entry_of_the_loader()
                                    : reinterpret_cast<vulkan::GetInstanceProcAddr>(
                                          number_of(get_instance_proc_addr, "get_instance_proc_addr")),
      .queue_family = 0,
      .queues = {},
      .timeline_semaphore = timeline_semaphore,
      .buffer_device_address = buffer_device_address,
      .external_memory_fd = external_memory_fd,
      .debug_utils = debug_utils};
  const std::size_t family = count(queue_family, "queue_family");
  options.queue_family = static_cast<std::uint32_t>(family);
  if (options.queue_family != family) throw Error(Errc::invalid_argument, "vulkan.adopt: there is no such queue_family");
  if (PySequence_Check(queues.ptr()) == 0 || PyTuple_Check(queues.ptr()) != 0)
    wrong_type(queues, "queues", "a list of handles, or of tuples of a handle and a lock");
  for (const nb::handle queue : nb::iter(queues)) options.queues.push_back(queue_of(queue));
  return without_gil([&] { return vulkan::adopt(options); });
}

Buffer wrap(const Device& device, nb::handle buffer, const Int& size, nb::handle owner, const Stream& stream,
            nb::handle memory, const Int& memory_offset, const Int& host_address) {
  const vulkan::ExternalBuffer external{
      .buffer = handle_of<VkBuffer_T>(buffer, "buffer"),
      .bytes = count(size, "size"),
      .memory = memory.is_none() ? nullptr : handle_of<VkDeviceMemory_T>(memory, "memory"),
      .memory_offset = count(memory_offset, "memory_offset"),
      .host = reinterpret_cast<void*>(address(host_address, "host_address"))};
  Owner reference{owner};
  try {
    return vulkan::wrap(device, external, reference.dropper(), stream);
  } catch (...) {
    reference.drop();  // weir did not drop it
    throw;
  }
}

void bind_functions(nb::module_& m) {
  m.def("adopt", &adopt, nb::kw_only(), nb::arg("instance"), nb::arg("physical_device"), nb::arg("device"),
        nb::arg("queues"), nb::arg("queue_family"), nb::arg("get_instance_proc_addr").none() = nb::none(),
        nb::arg("timeline_semaphore") = false, nb::arg("buffer_device_address") = false,
        nb::arg("external_memory_fd") = false, nb::arg("debug_utils") = false,
        "Device over an application's VkDevice, which must stay valid until release(). Handles are ints or pointers of "
        "ctypes. `queues` are those of `queue_family` that weir may submit to: a handle each, or a tuple of a handle "
        "and the application's lock of that queue, such as a threading.Lock. weir acquires the lock around every use, "
        "on any thread; whoever holds it must not call weir, and it is kept until the interpreter ends. Without a lock the queue must be weir's alone. Without "
        "`get_instance_proc_addr` that of libvulkan.so.1 is taken. `timeline_semaphore` (which must be), "
        "`buffer_device_address`, VK_KHR_`external_memory_fd` and VK_EXT_`debug_utils` say what is enabled. The device "
        "is not listed in devices(). Raises Error.");
  m.def(
      "release", [](const Device& device) { without_gil([&] { vulkan::release(device); }); }, nb::arg("device"),
      "End an adoption: wait for weir's work and for the adopted queues. Afterwards the application may destroy the "
      "VkDevice, and weir refuses the Device. Raises Error while Buffers or Streams of the device are alive.");
  m.def("wrap", &wrap, nb::arg("device"), nb::arg("buffer"), nb::arg("size"), nb::arg("owner").none(), nb::kw_only(),
        nb::arg("stream"), nb::arg("memory").none() = nb::none(), nb::arg("memory_offset") = 0,
        nb::arg("host_address") = 0,
        "Buffer over an application's VkBuffer of `size` bytes, which must be bound to memory, have transfer usage, and "
        "belong to the family of weir's queues. `owner` keeps it alive, and is dropped when all uses are complete. "
        "`memory` is what it is bound to, at `memory_offset`; without it, each copy waits for all work before it. "
        "`host_address` is where its first byte is mapped, coherently; 0 when it is not.");
  m.def(
      "native",
      [](const Buffer& buffer, const std::optional<Device>& device) {
        const Buffer owner = buffer.share();
        return without_gil([&] { return device ? vulkan::native(owner, *device) : vulkan::native(owner); });
      },
      nb::arg("buffer"), nb::arg("device") = nb::none(),
      "Handles of a Buffer, which owns them. Call Buffer.use_on after work of your own with them. Memory of "
      "weir.cuda.make_vmm_resource(vulkan=True) has handles on the Vulkan device of its GPU: the listed one, or "
      "`device`, "
      "such as an adopted one.");
  m.def(
      "native", [](const Stream& stream) { return without_gil([&] { return vulkan::native(stream); }); },
      nb::arg("stream"),
      "Hand everything on a Stream to its queue, and return its handles, which it owns, with the value that its "
      "semaphore has when all of that is complete.");
  m.def(
      "wait",
      [](const Stream& stream, nb::handle semaphore, const Int& value) {
        auto* const handle = handle_of<VkSemaphore_T>(semaphore, "semaphore");
        const std::uint64_t until = address(value, "value");
        without_gil([&] { vulkan::wait(stream, handle, until); });
      },
      nb::arg("stream"), nb::arg("semaphore"), nb::arg("value"),
      "Order what follows on `stream` after `value` of an application's timeline semaphore of the same VkDevice. The "
      "signal must already be submitted. The semaphore must live until the stream has passed this point.");
}

#else

void bind_functions(nb::module_& m) {
  for (const char* name : {"adopt", "release", "wrap", "native", "wait"})
    m.def(name, [](const nb::args&, const nb::kwargs&) {
      throw Error(Errc::unsupported, "this build of weir has no Vulkan backend");
    });
}

#endif

template <class Class, class Handle>
auto number(Handle* Class::*member) {
  return [member](const Class& c) { return reinterpret_cast<std::uintptr_t>(c.*member); };
}

}  // namespace

void bind_vulkan(nb::module_& m) {
  using vulkan::NativeBuffer, vulkan::NativeStream;
  nb::module_ sub = m.def_submodule("vulkan", "What only Vulkan has.");
  nb::class_<NativeBuffer>(sub, "NativeBuffer", "Handles of a Buffer as ints. All are 0 for zero bytes.")
      .def_prop_ro("buffer", number(&NativeBuffer::buffer), "VkBuffer of the whole segment")
      .def_ro("offset", &NativeBuffer::offset, "of the first byte within `buffer`")
      .def_ro("size", &NativeBuffer::size, "bytes")
      .def_prop_ro("memory", number(&NativeBuffer::memory), "VkDeviceMemory that `buffer` is bound to")
      .def_ro("memory_offset", &NativeBuffer::memory_offset, "of the first byte within `memory`")
      .def_ro("allocation_size", &NativeBuffer::allocation_size, "of all of `memory`; 0 for wrapped buffers")
      .def_ro("dedicated", &NativeBuffer::dedicated, "`memory` was allocated for `buffer` alone")
      .def_ro("device_address", &NativeBuffer::device_address, "of the first byte; 0 without bufferDeviceAddress");
  nb::class_<NativeStream>(sub, "NativeStream", "Handles of a Stream as ints.")
      .def_prop_ro("device", number(&NativeStream::device), "VkDevice")
      .def_prop_ro("queue", number(&NativeStream::queue), "VkQueue, which other streams may share")
      .def_ro("family", &NativeStream::family, "of `queue`")
      .def_prop_ro("semaphore", number(&NativeStream::semaphore), "VkSemaphore, timeline; signalled by weir only")
      .def_ro("value", &NativeStream::value, "reached when everything put on the stream so far is complete");
  bind_functions(sub);
}

}  // namespace weir::python
