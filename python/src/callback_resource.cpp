// SPDX-License-Identifier: Apache-2.0
// A resource over two functions of Python: one allocates, the other gives back.

#include "weir/callback_resource.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <new>
#include <utility>

#include "functions.hpp"
#include "integers.hpp"
#include "texts.hpp"

namespace weir::python {
namespace {

/// The function's MemoryError, whose text weir puts into its own.
class Exhausted : public std::bad_alloc {
 public:
  explicit Exhausted(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

[[noreturn]] void ended() {
  throw Error(Errc::closed, "make_callback_resource: the interpreter ends, and `allocate` is no longer called");
}

/// Return what the exception says, or its class if that cannot be told. Either way, memory is exhausted.
std::string words_of(const nb::python_error& error) {
  try {
    return shown(error.value());
  } catch (const nb::python_error& no_words) {
    if (!no_words.matches(PyExc_Exception)) throw;
    return nb::type_name(error.type()).c_str();
  }
}

void* allocate(const Function& function, std::size_t bytes, const Stream& stream) {
  if (!Py_IsInitialized()) ended();
  const WithGil gil;
  make_pending_calls();  // what they give back may be what is missing
  const nb::object allocating = function.get();
  if (!allocating) ended();
  try {
    const nb::object answer = call(allocating, bytes, stream);
    return answer.is_none() ? nullptr : reinterpret_cast<void*>(address(answer, "what `allocate` returns"));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_MemoryError)) throw;
    throw Exhausted(words_of(error));
  }
}

struct GivenBack {
  std::shared_ptr<Function> function;
  void* address;
  std::size_t bytes;
};

/// Call the function. Nobody is there who could catch its exception, so it goes to sys.unraisablehook.
void deallocate_now(void* argument) {
  const std::unique_ptr<GivenBack> memory{static_cast<GivenBack*>(argument)};
  const nb::object deallocating = memory->function->get();
  if (!deallocating) return;
  try {
    call(deallocating, reinterpret_cast<std::uintptr_t>(memory->address), memory->bytes);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(deallocating);
  }
}

void deallocate(const std::shared_ptr<Function>& function, void* address, std::size_t bytes) {
  if (!Py_IsInitialized()) return;
  call_with_gil(&deallocate_now, new GivenBack{function, address, bytes});
}

ResourcePtr make(const Device& device, nb::handle allocating, nb::handle deallocating, std::string name,
                 std::optional<bool> host_accessible, bool device_accessible) {
  CallbackOptions options{.name = std::move(name),
                          .host_accessible = host_accessible.value_or(device == host_device()),
                          .device_accessible = device_accessible,
                          .allocate = {},
                          .deallocate = {}};
  auto first = function_of(allocating, "allocate"), second = function_of(deallocating, "deallocate");
  options.allocate = [function = std::move(first)](std::size_t bytes, const Stream& stream) {
    return allocate(*function, bytes, stream);
  };
  options.deallocate = [function = std::move(second)](void* address, std::size_t bytes) {
    deallocate(function, address, bytes);
  };
  return without_gil([&] { return make_callback_resource(device, std::move(options)); });
}

}  // namespace

void bind_callback_resources(nb::module_& m) {
  m.def("make_callback_resource", &make, nb::arg("device"), nb::arg("allocate").none(),
        nb::arg("deallocate").none(), nb::kw_only(),
        nb::arg("name") = CallbackOptions{}.name, nb::arg("host_accessible").none() = nb::none(),
        nb::arg("device_accessible") = CallbackOptions{}.device_accessible,
        nb::sig("def make_callback_resource(device: Device, allocate: Callable[[int, Stream], int | None], deallocate: "
                "Callable[[int, int], object], *, name: str = 'callback', host_accessible: bool | None = None, "
                "device_accessible: bool = True) -> MemoryResource"),
        "Resource over two functions. `allocate(size, stream)` returns the address of `size` (> 0) bytes, a multiple "
        "of 256, that may be used on `stream` at once. None or MemoryError says that memory is exhausted; any other "
        "exception reaches the caller of allocate. `deallocate(address, size)` takes the memory back when no use of it "
        "is left on any stream. It runs soon after that on a thread that has the GIL, and its exceptions go to "
        "sys.unraisablehook. Both may run on several threads at once, and none of weir's locks is held meanwhile. The host "
        "reaches the memory if `host_accessible` says so; None says so for the host's own. Each Buffer costs a call of "
        "each function, so put a pool over this. The resource keeps the functions alive until the interpreter ends, and "
        "the garbage collector cannot see that: let them refer weakly to the resource and to Buffers of it. Memory "
        "that lives longer than the interpreter is left to the end of the process.");
}

}  // namespace weir::python
