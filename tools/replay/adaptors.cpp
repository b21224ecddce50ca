// SPDX-License-Identifier: Apache-2.0
// The adaptors that a resource in words may have. Each has a line in the table and is called as in the name of the
// resource. An adaptor that needs a function of the program (failure_callback) cannot be put in words.

#include <array>
#include <utility>

#include "replay/spec.hpp"
#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/adaptors/prefetch.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/pool.hpp"

namespace weir::replay {
namespace {

using Type = Parameter::Type;

constexpr std::array<std::string_view, 3> policies{"passed_only", "wait_rather_than_fail",
                                                   "wait_rather_than_grow"};
static_assert(static_cast<int>(ReusePolicy::passed_only) == 0 &&
              static_cast<int>(ReusePolicy::wait_rather_than_fail) == 1 &&
              static_cast<int>(ReusePolicy::wait_rather_than_grow) == 2);

constexpr std::array pool_parameters{Parameter{"limit"}, Parameter{"segment"}, Parameter{"initial"},
                                     Parameter{"reuse", Type::choice, false, policies}};
ResourcePtr pool(ResourcePtr upstream, std::span<const Value> values) {
  PoolOptions options;
  options.limit = values[0].or_else(options.limit);
  options.segment_bytes = values[1].or_else(options.segment_bytes);
  options.initial_bytes = values[2].or_else(options.initial_bytes);
  if (values[3].given) options.reuse = static_cast<ReusePolicy>(values[3].number);
  return make_pool(std::move(upstream), options);
}

constexpr std::array limit_parameters{Parameter{"bytes", Type::bytes, true}};
ResourcePtr limit(ResourcePtr upstream, std::span<const Value> values) {
  return make_limiting(std::move(upstream), static_cast<std::size_t>(values[0].number));
}

constexpr std::array aligned_parameters{Parameter{"alignment", Type::bytes, true}, Parameter{"threshold"}};
ResourcePtr aligned(ResourcePtr upstream, std::span<const Value> values) {
  return make_aligned(std::move(upstream), static_cast<std::size_t>(values[0].number), values[1].or_else(0));
}

constexpr std::array debug_parameters{Parameter{"guard"}, Parameter{"quarantine"}};
ResourcePtr debug(ResourcePtr upstream, std::span<const Value> values) {
  DebugOptions options;
  options.guard_bytes = values[0].or_else(options.guard_bytes);
  options.quarantine_bytes = values[1].or_else(options.quarantine_bytes);
  return make_debug(std::move(upstream), options);
}

ResourcePtr statistics(ResourcePtr upstream, std::span<const Value>) {
  return make_statistics(std::move(upstream));
}
ResourcePtr tracking(ResourcePtr upstream, std::span<const Value>) {
  return make_tracking(std::move(upstream));
}

ResourcePtr prefetch(ResourcePtr upstream, std::span<const Value>) {
  return make_prefetch(std::move(upstream));
}

constexpr std::array log_parameters{Parameter{"file", Type::text, true}};
ResourcePtr log(ResourcePtr upstream, std::span<const Value> values) {
  return make_logging(std::move(upstream), values[0].text);
}

constexpr Adaptor table[] = {
    {"pool", pool_parameters, &pool},
    {"limit", limit_parameters, &limit},
    {"aligned", aligned_parameters, &aligned},
    {"statistics", {}, &statistics},
    {"tracking", {}, &tracking},
    {"debug", debug_parameters, &debug},
    {"prefetch", {}, &prefetch},
    {"log", log_parameters, &log},
};

}  // namespace

std::span<const Adaptor> adaptors() { return table; }

}  // namespace weir::replay
