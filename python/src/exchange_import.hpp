// SPDX-License-Identifier: Apache-2.0
#pragma once
// The consumer's side of DLPack's table of C functions.

#include <dlpack/dlpack.h>

#include <optional>

#include "bind.hpp"

namespace weir::python {

/// Take over the tensor of an object whose class has DLPack's table of C functions, in the order that from_dlpack
/// promises. Returns nothing where the object has to be asked by __dlpack__ instead. Throws what the functions raise.
std::optional<Tensor> exchange(nb::handle object, nb::handle stream);

/// Return weir's own table.
const DLPackExchangeAPI* exchange_table();

/// The consumer's stream, and what the producer is told as `stream`: a handle for CUDA memory, otherwise nothing. If
/// the consumer's stream is not one of CUDA, the producer orders CUDA memory before the legacy default stream, and the
/// consumer's stream waits for that.
struct Consumer {
  Stream stream;
  std::optional<Stream> producer_side;
  std::optional<std::uintptr_t> handle;
};
Consumer consumer_for(nb::handle stream, DlpackDevice device);

/// Return where the memory of `managed` is. The host where that cannot be read, because of another major version of
/// DLPack, which take_over refuses.
inline DLDevice device_in(const DLManagedTensorVersioned& managed) noexcept {
  return managed.version.major == DLPACK_MAJOR_VERSION ? managed.dl_tensor.device : DLDevice{kDLCPU, 0};
}

/// Give a producer's tensor back with the GIL, because its deleter may want it.
void return_to_producer(DLManagedTensorVersioned* managed);

}  // namespace weir::python
