// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/failure_callback.hpp"

#include "adaptors/adaptor.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace {

/// A call of a callback that this thread is in. The calls form a list, because callbacks of several resources may call
/// each other.
struct Call {
  const MemoryResource* of;
  const Call* around;
};
thread_local const Call* innermost = nullptr;

class FailureCallbackResource final : public detail::Adaptor<MemoryResource> {
 public:
  FailureCallbackResource(ResourcePtr upstream, FailureCallback callback, std::size_t most)
      : Adaptor(std::move(upstream), "failure_callback"), callback_(std::move(callback)), most_(most) {}

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    for (std::size_t attempt = 1;; ++attempt) {
      if (spi::Block* const block = Adaptor::do_allocate(request, shortage)) return block;
      if (attempt > most_ || calls() || !call(request, attempt, shortage)) return nullptr;
      shortage = {};
    }
  }

  /// Return whether this thread is inside this resource's callback.
  [[nodiscard]] bool calls() const noexcept {
    const Call* call = innermost;
    while (call && call->of != this) call = call->around;
    return call != nullptr;
  }

  bool call(const spi::Request& request, std::size_t attempt, Shortage shortage) {
    shortage.requested = request.bytes;
    shortage.alignment = request.alignment;
    if (shortage.device.empty()) shortage.device = device().state().describe();
    if (shortage.resource.empty()) shortage.resource = upstream_->name();
    const Call here{this, innermost};
    struct Inside {
      explicit Inside(const Call& call) noexcept { innermost = &call; }
      ~Inside() { innermost = innermost->around; }
    } const inside(here);
    return callback_({request.bytes, request.alignment, *request.stream, attempt, shortage});
  }

  const FailureCallback callback_;
  const std::size_t most_;
};

}  // namespace

ResourcePtr make_failure_callback(ResourcePtr upstream, FailureCallback callback,
                                  const FailureCallbackOptions& options) {
  if (!callback) throw Error(Errc::invalid_argument, "make_failure_callback: there is no function to call");
  if (options.max_attempts == 0) {
    throw Error(Errc::invalid_argument,
                "make_failure_callback: max_attempts is 0, so it would never be called");
  }
  return detail::make_adaptor<FailureCallbackResource>(
      detail::checked_upstream(std::move(upstream), "make_failure_callback"), std::move(callback),
      options.max_attempts);
}

}  // namespace weir
