// SPDX-License-Identifier: Apache-2.0
#include "suite.hpp"

#include <utility>

namespace weir::bench {
namespace {

constinit const Suite* first = nullptr;

}  // namespace

Suite::Suite(std::string_view backend, Add add) noexcept
    : backend_(backend), add_(add), next_(std::exchange(first, this)) {}

void Suite::add_all(const Device& device) {
  for (const Suite* suite = first; suite; suite = suite->next_) {
    if (suite->backend_.empty() || suite->backend_ == device.backend()) suite->add_(device);
  }
}

}  // namespace weir::bench
