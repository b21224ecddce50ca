// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program does with a pool once the pool has what the program needs. None of it asks a driver, the
// kernel or operator new for anything: tests count that where they stand between weir and those.

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/pool.hpp"
#include "weir/tensor.hpp"

namespace weir::test {

/// A pool, two streams of its device, and room for buffers.
struct WarmPool {
  WarmPool(ResourcePtr upstream, bool paged);

  PoolPtr pool;
  Stream stream, other;
  std::vector<Buffer> window;
  std::optional<Tensor> tensor;
};

struct WarmPath {
  const char* name;
  void (*run)(WarmPool& warm);
};
std::span<const WarmPath> warm_paths();

/// For INSTANTIATE_TEST_SUITE_P over them.
struct WarmPathName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};
void PrintTo(const WarmPath& path, std::ostream* out);

/// Once before anything counts: afterwards the pool has what the path needs.
void warm_up(WarmPool& warm, const WarmPath& path);

}  // namespace weir::test
