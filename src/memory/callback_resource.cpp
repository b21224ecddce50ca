// SPDX-License-Identifier: Apache-2.0
#include "weir/callback_resource.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/fork_mutex.hpp"
#include "memory/adopted.hpp"
#include "stream/releases.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"

namespace weir {
namespace {

/// The user's functions and the counts. The last memory may need them after the resource has ended.
struct Lender {
  explicit Lender(CallbackOptions functions) : options(std::move(functions)) {}

  void give_back(void* address, std::size_t bytes) {
    {
      const std::scoped_lock lock(mutex);
      stats.reserved -= bytes;
    }
    options.deallocate(address, bytes);
  }
  /// The same while an error is on its way to the caller, who gets that one.
  void give_back_unused(void* address, std::size_t bytes) noexcept {
    constexpr const char* where = "release of adopted memory";
    try {
      give_back(address, bytes);
    } catch (const std::exception& error) {
      report({{}, where, error.what()});
    } catch (...) {
      report({{}, where, "unknown exception"});
    }
  }

  const CallbackOptions options;
  mutable detail::ForkMutex mutex;
  ResourceStats stats;
};

class CallbackResource final : public MemoryResource {
 public:
  CallbackResource(const Device& device, CallbackOptions options)
      : MemoryResource(device, std::string(device.backend()) + "." + options.name,
                       {MemoryKind::external, options.host_accessible, options.device_accessible, false}),
        lender_(std::make_shared<Lender>(std::move(options))) {}

  [[nodiscard]] ResourceStats stats() const override {
    const std::scoped_lock lock(lender_->mutex);
    return lender_->stats;
  }

  std::size_t trim(std::size_t /*bytes_to_keep*/) override {
    const auto before = stats().reserved;
    detail::drain_releases(device().state());  // its buffers end as other external memory does
    return before - std::min(before, stats().reserved);
  }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    const std::size_t bytes = request.bytes + request.alignment - default_alignment;
    void* const address = ask(bytes, *request.stream, shortage);
    if (!address) {
      const ResourceStats now = stats();
      shortage.in_use = now.in_use;
      shortage.reserved = now.reserved;
      return nullptr;
    }
    {
      const std::scoped_lock lock(lender_->mutex);
      lender_->stats.reserved += bytes;
      lender_->stats.peak_reserved = std::max(lender_->stats.peak_reserved, lender_->stats.reserved);
    }
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at % default_alignment != 0) {
      lender_->give_back_unused(address, bytes);
      throw Error(Errc::incompatible, name() + ": the memory that it was given is not aligned to " +
                                          std::to_string(default_alignment) + " bytes");
    }
    const auto wrap = [&] {
      try {
        return detail::adopt_address(
            device().state(), at, bytes, false,
            [lender = lender_, address, bytes] { lender->give_back(address, bytes); }, *request.stream);
      } catch (...) {
        lender_->give_back_unused(address, bytes);
        throw;
      }
    };
    const Buffer buffer = wrap();
    spi::Block& block = *buffer.block();
    block.offset += (0 - at) & (request.alignment - 1);
    block.size = request.bytes;
    external_ = block.resource;
    block.resource = this;
    block.owners.fetch_add(1);  // `buffer` drops its own
    const std::scoped_lock lock(lender_->mutex);
    ResourceStats& stats = lender_->stats;
    ++stats.allocations;
    if (stats.live_buffers++ == 0) self_ = shared_from_this();
    stats.in_use += request.bytes;
    stats.peak_in_use = std::max(stats.peak_in_use, stats.in_use);
    return &block;
  }

  void* ask(std::size_t bytes, const Stream& stream, Shortage& shortage) {
    shortage.call = lender_->options.name;
    shortage.native = make_error_code(std::errc::not_enough_memory);
    try {
      return lender_->options.allocate(bytes, stream);
    } catch (const OutOfMemory& error) {
      shortage = error.shortage();
      shortage.resource.clear();  // the caller puts in the name of this resource
    } catch (const std::bad_alloc& error) {
      shortage.call += std::string(" (") + error.what() + ")";
    }
    return nullptr;
  }

  void do_deallocate(spi::Block& block) noexcept override {
    const std::size_t bytes = std::exchange(block.size, block.segment->size);  // which is what it was made with
    deallocate_to(*external_, block);
    std::shared_ptr<MemoryResource> last;  // destroyed after the lock, and this resource with it
    const std::shared_ptr<Lender> lender = lender_;
    const std::scoped_lock lock(lender->mutex);
    lender->stats.in_use -= bytes;
    if (--lender->stats.live_buffers == 0) last = std::move(self_);
  }

  const std::shared_ptr<Lender> lender_;
  std::shared_ptr<MemoryResource> self_;            // while buffers live; guarded by the lender's lock
  std::atomic<MemoryResource*> external_{nullptr};  // the device's external resource, which never ends
};

}  // namespace

ResourcePtr make_callback_resource(const Device& device, CallbackOptions options) {
  if (!options.allocate || !options.deallocate) {
    throw Error(Errc::invalid_argument, "make_callback_resource: both functions are needed");
  }
  if (!device.state().backend->segments->wrap) {
    throw Error(Errc::unsupported, "make_callback_resource: memory of " + device.state().describe() +
                                       " has no address that functions could return");
  }
  return std::make_shared<CallbackResource>(device, std::move(options));
}

}  // namespace weir
