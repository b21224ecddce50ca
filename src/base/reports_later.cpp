// SPDX-License-Identifier: Apache-2.0
#include "base/reports_later.hpp"

#include <exception>

namespace weir::detail {
namespace {

constinit thread_local ReportsLater* outermost = nullptr;

}  // namespace

ReportsLater::ReportsLater() noexcept {
  if (!outermost) outermost = this;
}

ReportsLater::~ReportsLater() {
  if (outermost != this) return;
  outermost = nullptr;
  for (const Kept& one : kept_) report({one.code, one.where, one.message});
}

bool ReportsLater::keep(const Failure& failure) noexcept {
  if (!outermost) return false;
  try {
    outermost->kept_.push_back({failure.code, std::string(failure.where), std::string(failure.message)});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace weir::detail
