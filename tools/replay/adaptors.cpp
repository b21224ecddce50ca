// SPDX-License-Identifier: Apache-2.0
// The adaptors that a resource in words may have. One line each, and its parameters.

#include <array>
#include <utility>

#include "replay/spec.hpp"
#include "weir/resources/logging.hpp"
#include "weir/resources/pool.hpp"

namespace weir::replay {
namespace {

using Type = Parameter::Type;

constexpr std::array<std::string_view, 3> policies{"passed_only", "wait_rather_than_fail", "wait_rather_than_grow"};
static_assert(static_cast<int>(ReusePolicy::passed_only) == 0 && static_cast<int>(ReusePolicy::wait_rather_than_fail) == 1 &&
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

constexpr std::array log_parameters{Parameter{"file", Type::text, true}};
ResourcePtr log(ResourcePtr upstream, std::span<const Value> values) {
  return make_logging(std::move(upstream), values[0].text);
}

constexpr Adaptor table[] = {
    {"pool", pool_parameters, &pool},
    {"log", log_parameters, &log},
};

}  // namespace

std::span<const Adaptor> adaptors() { return table; }

}  // namespace weir::replay
