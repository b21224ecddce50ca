// SPDX-License-Identifier: Apache-2.0
// Host functions that other processes wait for.
#include <memory>
#include <utility>

#include "weir/spi/stream_state.hpp"
#include "weir/spi/waiter.hpp"

namespace weir::spi {
namespace {

/// As long as it stands on a timeline, the library's thread asks for its points.
class Attention final : public Waiter {
 public:
  static void passed(Waiter& self, InHand& /*others*/) noexcept { delete static_cast<Attention*>(&self); }
};

}  // namespace

// Where a thread of weir runs the function, that thread notices that the device has stopped, and runs nothing on a
// timeline that is lost. A driver that runs it tells nobody who does not ask, and runs it also where what the work
// waited for will never be. The function may name the timeline, which is kept until the value has passed.
std::uint64_t StreamState::put_promise(CallOp op) {
  if (!calls_natively()) return put(std::move(op));
  auto attention = std::make_unique<Attention>();
  op.function = [this, function = std::move(op.function)] {
    if (!lost()) function();
  };
  const auto value = put(std::move(op));
  awaited(value);  // also when nobody names the stream any more
  if (after(value, *attention, &Attention::passed, true)) (void)attention.release();
  return value;
}

}  // namespace weir::spi
