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

// Where a thread of weir runs the function, that thread notices that the device has stopped. A driver that runs it tells
// nobody who does not ask.
std::uint64_t StreamState::put_promise(CallOp op) {
  auto attention = calls_natively() ? std::make_unique<Attention>() : nullptr;
  const auto value = put(std::move(op));
  if (attention && after(value, *attention, &Attention::passed, true)) (void)attention.release();
  return value;
}

}  // namespace weir::spi
