// SPDX-License-Identifier: Apache-2.0
// DLPack's table of C functions (__dlpack_c_exchange_api__), by which libraries exchange tensors without Python calls.
//
// These functions name no stream. Their tensors are in order of the work stream of the calling thread: the one that a
// `with work_stream(...)` names, else CUDA's legacy default stream. Memory that the host reads is complete.

#include <dlpack/dlpack.h>

#include <exception>
#include <memory>
#include <vector>

#include "arguments.hpp"
#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "exchange_import.hpp"
#include "guarded.hpp"
#include "ordering.hpp"
#include "owners.hpp"
#include "weir/current_resource.hpp"
#include "weir/spi/dlpack.hpp"

namespace weir::python {
namespace {

bool is_cuda(std::int32_t type) { return type == kDLCUDA || type == kDLCUDAHost || type == kDLCUDAManaged; }

std::vector<Stream>& work_streams() {  // of this thread; the last one of a device counts
  thread_local std::vector<Stream> streams;
  return streams;
}

}  // namespace

const Stream* named_work_stream(const Device& device) {
  const auto& streams = work_streams();
  for (auto one = streams.rbegin(); one != streams.rend(); ++one)
    if (one->device() == device) return &*one;
  return nullptr;
}

namespace {

Device device_of(DlpackDevice device) {
  if (device.type == kDLCPU) return host_device();
  if (!is_cuda(device.type))
    throw Error(Errc::unsupported,
                "DLPack's exchange API of weir knows memory of the CPU and of CUDA, not of device type " +
                    std::to_string(device.type));
  return weir::device("cuda:" + std::to_string(device.id));
}

Stream work_stream(const Device& device) {
  if (const Stream* const named = named_work_stream(device)) return *named;
  return device == host_device() ? host_stream() : cuda_stream(device, cuda_legacy_stream);
}

using SetError = void (*)(void* context, const char* kind, const char* message);

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context, SetError set_error) noexcept {
  *out = nullptr;
  const char* kind = "RuntimeError";
  std::string why;
  try {
    if (prototype->ndim < 0 || (prototype->ndim > 0 && !prototype->shape))
      throw Error(Errc::invalid_argument, "the prototype has no shape");
    const DlpackDevice asked{static_cast<std::int32_t>(prototype->device.device_type), prototype->device.device_id};
    const Device device = device_of(asked);
    const DType dtype{prototype->dtype.code, prototype->dtype.bits, prototype->dtype.lanes};
    Layout layout = Layout::compact(dtype, {prototype->shape, prototype->shape + prototype->ndim});
    const Stream stream = work_stream(device);
    std::optional<WithoutGil> released;  // a resource of Python may be under it, which another thread waits for
    if (holds_the_gil()) released.emplace();
    Buffer memory = current_resource(device)->allocate(layout.bytes_needed(), stream);
    *out = Tensor(std::move(memory), std::move(layout))
               .to_dlpack(stream, {.device = DlpackDevice{asked.type, asked.type == kDLCUDA ? asked.id : 0},
                                   .copy = DlpackCopy::never})
               .release();
    return 0;
  } catch (const std::bad_alloc& shortage) {
    kind = "MemoryError";
    why = shortage.what();
  } catch (const Error& refused) {
    if (refused.code() == Errc::invalid_argument) kind = "ValueError";
    if (refused.code() == Errc::unsupported || refused.code() == Errc::incompatible) kind = "BufferError";
    why = refused.what();
  } catch (const std::exception& failed) {
    why = failed.what();
  }
  if (set_error) set_error(context, kind, why.c_str());
  return -1;
}

template <class F>
int answer(F&& f) noexcept {
  try {
    f();
    return 0;
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

int export_tensor(void* object, DLManagedTensorVersioned** out) noexcept {
  *out = nullptr;
  return answer([&] {
    const Tensor& tensor = instance<Tensor>(static_cast<PyObject*>(object), "object");
    const Buffer& buffer = tensor.buffer();
    const Layout& layout = tensor.layout();
    const DlpackDevice device = spi::dlpack_route(buffer, {}).device;
    const spi::Elements elements{layout.dtype, layout.shape, layout.strides, layout.byte_offset};
    if (device.type == kDLCUDA) {
      const Stream stream = work_stream(cuda_device(buffer, device));
      *out = export_for(buffer, elements, device, 0, stream).release();
    } else {
      complete_on_host(buffer, elements);
      *out = spi::export_elements(buffer, elements, device, 0, nullptr).release();
    }
  });
}

int import_tensor(DLManagedTensorVersioned* managed, void** out) noexcept {
  *out = nullptr;
  return answer([&] {
    struct Unless {  // ownership moves in any case
      DLManagedTensorVersioned* managed;
      ~Unless() {
        if (managed && managed->deleter) managed->deleter(managed);
      }
    } owner{managed};
    const DLDevice device = device_in(*managed);
    const Stream stream = work_stream(device_of({static_cast<std::int32_t>(device.device_type), device.device_id}));
    owner.managed = nullptr;
    *out = nb::cast(take_over(managed, stream)).release().ptr();
  });
}

int current_work_stream(DLDeviceType type, std::int32_t id, void** out) noexcept {
  *out = nullptr;
  if (!is_cuda(type)) return 0;
  return answer([&] {
    if (const Stream* const named = named_work_stream(device_of({type, id})))
      *out = reinterpret_cast<void*>(*cuda_stream_handle(*named));
  });
}

// There is no function that lends a tensor: nobody would say until when its memory is used.
DLPackExchangeAPI table{.header = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, .prev_api = nullptr},
                        .managed_tensor_allocator = &allocate,
                        .managed_tensor_from_py_object_no_sync = &export_tensor,
                        .managed_tensor_to_py_object_no_sync = &import_tensor,
                        .dltensor_from_py_object_no_sync = nullptr,
                        .current_work_stream = &current_work_stream};

/// `with work_stream(stream): ...`
class WorkStream {
 public:
  explicit WorkStream(Stream stream) : stream_(std::move(stream)) {}
  const Stream& enter() {
    work_streams().push_back(stream_);
    return stream_;
  }
  void exit() {
    auto& streams = work_streams();
    for (auto one = streams.rbegin(); one != streams.rend(); ++one) {
      if (*one != stream_) continue;
      streams.erase(std::next(one).base());
      return;
    }
  }

 private:
  Stream stream_;
};

}  // namespace

const DLPackExchangeAPI* exchange_table() { return &table; }

nb::capsule exchange_api() { return nb::capsule(&table, "dlpack_exchange_api"); }

void bind_exchange(nb::module_& m) {
  nb::class_<WorkStream>(
      m, "work_stream",
      "Context in which DLPack's C exchange API puts this thread's work on `stream`: libraries that "
      "take tensors by it launch there, and what they allocate is usable there at once. Without one, "
      "CUDA memory is in order of the legacy default stream.")
      .def(nb::init<Stream>(), nb::arg("stream"))
      .def("__enter__", &WorkStream::enter)
      .def(
          "__exit__", [](WorkStream& self, nb::args) { self.exit(); },
          nb::sig("def __exit__(self, *args: object) -> None"));
}

}  // namespace weir::python
