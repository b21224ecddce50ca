// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/debug.hpp"

#include <chrono>
#include <limits>

#include "adaptors/adaptor.hpp"
#include "adaptors/debug/quarantine.hpp"
#include "memory/lent.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;

// How long an allocation that would fail waits for closed memory to be checked, and how many bytes may wait for their
// check before allocations do some of the checking themselves.
constexpr std::chrono::seconds patience{1};
constexpr std::size_t most_waiting = std::size_t{16} << 20;
constexpr std::size_t most_guard = std::numeric_limits<std::size_t>::max() / 4;  // no allocation gets that much

class Debug final : public detail::Adaptor<DebugResource> {
 public:
  Debug(ResourcePtr upstream, const DebugOptions& options)
      : Adaptor(std::move(upstream), "debug"),
        poison_(options.poison),
        guard_((std::clamp(options.guard_bytes, std::size_t{1}, most_guard) + 7) / 8 * 8),
        quarantine_(std::make_shared<detail::Quarantine>(upstream_, name(), options, &give_back_to)) {}
  ~Debug() override { quarantine_->end(); }

  std::size_t trim(std::size_t bytes_to_keep) override {
    const auto before = upstream_->stats().reserved;
    if (is_exportable()) detail::settle_lent();
    quarantine_->drain();  // closed memory is checked, and kept
    quarantine_->give_back_kept(detail::Quarantine::Look::at_all);
    quarantine_->drain();
    upstream_->trim(bytes_to_keep);
    const auto after = upstream_->stats().reserved;
    return before > after ? before - after : 0;
  }

  [[nodiscard]] std::uint64_t violations() const noexcept override { return quarantine_->violations(); }

 private:
  static void give_back_to(MemoryResource& upstream, spi::Block& block) noexcept {
    deallocate_to(upstream, block);
  }

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    detail::Quarantine::Live made;
    auto& guarded = *(made[nullptr] = std::make_unique<detail::Guarded>());
    guarded.stream = request.stream->id();
    guarded.bytes = request.bytes;
    guarded.guard = guard_;
    guarded.front = (guard_ + request.alignment - 1) / request.alignment * request.alignment;
    const auto most = std::numeric_limits<std::size_t>::max() / 2 - request.alignment;
    if (guarded.front + guard_ > most || request.bytes > most - guarded.front - guard_) {
      return refused(shortage);
    }
    const spi::Request wanted{guarded.total(), request.alignment, request.stream};
    if (quarantine_->waiting() > most_waiting) quarantine_->settle();
    spi::Block* block = take(wanted, shortage);
    for (const auto deadline = Clock::now() + patience; !block && quarantine_->give_back_some(deadline);) {
      shortage = {};
      block = take(wanted, shortage);
    }
    if (!block) return nullptr;
    guarded.block = block;
    try {
      guarded.prepare(poison_, *request.stream);
    } catch (...) {
      deallocate_to(*upstream_, *block);
      throw;
    }
    guarded.enter();
    auto node = made.extract(made.begin());
    node.key() = block;
    quarantine_->watch(std::move(node));
    came(request.bytes);
    return block;
  }

  void do_deallocate(spi::Block& block) noexcept override {
    const auto bytes = block.size;
    quarantine_->closed(block);
    gone(bytes);
  }

  const bool poison_;
  const std::size_t guard_;
  const std::shared_ptr<detail::Quarantine> quarantine_;
};

}  // namespace

DebugPtr make_debug(ResourcePtr upstream, const DebugOptions& options) {
  return detail::make_adaptor<Debug>(detail::checked_upstream(std::move(upstream), "make_debug"), options);
}

}  // namespace weir
