// SPDX-License-Identifier: Apache-2.0
#include "ipc/slices.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "weir/spi/interruptible.hpp"

namespace weir {
namespace {

thread_local spi::Interruptible::Check check = nullptr;
constexpr int slice = 100;  // milliseconds

}  // namespace

spi::Interruptible::Interruptible(Check check_now) noexcept : before_(std::exchange(check, check_now)) {}
spi::Interruptible::~Interruptible() { check = before_; }

namespace detail {

int slice_of(const channel::Deadline& deadline) noexcept {
  const int left = deadline.milliseconds();
  return check && (left < 0 || left > slice) ? slice : left;
}

channel::Deadline end_of_slice(const channel::Deadline& deadline) noexcept {
  return check ? channel::Deadline(std::chrono::milliseconds(slice_of(deadline))) : deadline;
}

void check_interruption() {
  if (check) check();
}

}  // namespace detail
}  // namespace weir
