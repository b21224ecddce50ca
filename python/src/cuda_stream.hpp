// SPDX-License-Identifier: Apache-2.0
#pragma once
// CUDA streams by number. Only this part of the binding differs in a build without the CUDA backend.

#include <cstdint>
#include <memory>
#include <optional>

#include "bind.hpp"

namespace weir::python {

inline constexpr std::uintptr_t cuda_legacy_stream = 1;

/// Return a Stream over the native `handle`; 1 and 2 are the legacy and the per-thread default stream. Throws
/// unsupported when this build has no CUDA. `owner` is kept as long as weir uses the stream.
Stream cuda_stream(const Device& device, std::uintptr_t handle, std::shared_ptr<void> owner = nullptr);
/// Return a Stream over the CUDA stream in an int, or in an object with __cuda_stream__, which is kept as long as weir
/// uses the stream.
Stream borrow_cuda_stream(const Device& device, nb::handle stream);
/// Return the legacy default stream of "cuda:`ordinal`".
Stream cuda_legacy(int ordinal);
/// Return the CUDA device whose memory an export labelled `label` (a number of CUDA's) shows: that of the buffer, or
/// the one that is the same GPU.
Device cuda_device(const Buffer& buffer, DlpackDevice label);
/// Return the address of the memory on CUDA. Throws what weir::cuda::pointer throws.
std::uintptr_t cuda_pointer(const Buffer& buffer);
/// Return the native handle, or nothing for streams of other backends.
std::optional<std::uintptr_t> cuda_stream_handle(const Stream& stream);
/// Return the number in an int, or in an object with __cuda_stream__. Throws TypeError or ValueError.
std::uintptr_t cuda_handle_of(nb::handle stream);

}  // namespace weir::python
