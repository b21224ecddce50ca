// SPDX-License-Identifier: Apache-2.0
#pragma once
// streams/… where there are no kernels: a fill of 1 MiB stands for one. Of weir alone, whose fill it is.

#include "pool/streams.hpp"
#include "support/pooled.hpp"

namespace weir::bench {

inline void add_streams_with_fills(const Subject<Pooled>& weir) {
  const Work<Pooled> fill = [](Buffer& buffer, const Stream& stream) {
    buffer.fill(std::uint32_t{1}, stream);
  };
  add_streams(weir, mib, fill, "fills of 1 MiB instead of kernels");
}

}  // namespace weir::bench
