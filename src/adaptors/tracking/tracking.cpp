// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/tracking.hpp"

#include <execinfo.h>

#include <limits>
#include <map>

#include "adaptors/adaptor.hpp"
#include "base/fork_mutex.hpp"

namespace weir {
namespace {

struct Record {
  TrackedBuffer buffer;
  bool reported = false;
};

/// The live buffers, by their blocks. Inserting and erasing need no memory.
class Book {
 public:
  using Records = std::map<const spi::Block*, Record>;

  void insert(Records::node_type record) noexcept {
    const std::scoped_lock lock(mutex_);
    record.mapped().buffer.number = ++last_number_;
    records_.insert(std::move(record));
  }
  void erase(const spi::Block& block) noexcept {
    Records::node_type ended;  // freed without the lock
    const std::scoped_lock lock(mutex_);
    ended = records_.extract(&block);
  }
  /// List the buffers in the order of their numbers. With `unreported`, list only those that no report has named yet;
  /// this call then counts as their report.
  [[nodiscard]] std::vector<TrackedBuffer> list(bool unreported) {
    std::vector<TrackedBuffer> all;
    {
      const std::scoped_lock lock(mutex_);
      for (auto& [block, record] : records_) {
        if (!unreported || !std::exchange(record.reported, true)) all.push_back(record.buffer);
      }
    }
    std::ranges::sort(all, {}, &TrackedBuffer::number);
    return all;
  }

 private:
  detail::ForkMutex mutex_;
  Records records_;
  std::uint64_t last_number_ = 0;
};

/// Return the innermost `depth` frames, or all if there are fewer.
std::vector<void*> capture(std::size_t depth) {
  if (depth == 0) return {};
  depth = std::min<std::size_t>(depth, std::numeric_limits<int>::max());
  std::vector<void*> stack(std::min<std::size_t>(depth, 64));
  const auto fill = [&] { return static_cast<std::size_t>(backtrace(stack.data(), static_cast<int>(stack.size()))); };
  std::size_t found = fill();
  while (found == stack.size() && found < depth) {
    stack.resize(std::min(depth, 2 * found));
    found = fill();
  }
  return {stack.begin(), stack.begin() + static_cast<std::ptrdiff_t>(found)};
}

class Tracking final : public detail::Adaptor<TrackingResource> {
 public:
  Tracking(ResourcePtr upstream, const TrackingOptions& options)
      : Adaptor(std::move(upstream), "tracking"), options_(options) {}

  [[nodiscard]] std::vector<TrackedBuffer> outstanding() const override { return book_.list(false); }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    Book::Records made;
    made[nullptr].buffer = {0, request.bytes, request.alignment, request.stream->id(),
                            capture(options_.stack_depth)};
    spi::Block* const block = Adaptor::do_allocate(request, shortage);
    if (!block) return nullptr;
    auto record = made.extract(made.begin());
    record.key() = block;
    book_.insert(std::move(record));
    return block;
  }

  // Erase the record first: after that, upstream may give the block to somebody else.
  void do_deallocate(spi::Block& block) noexcept override {
    book_.erase(block);
    give_back(block);
  }

  void last_handle_goes() noexcept override {
    if (!options_.report_leaks) return;
    try {
      report_leaks();
    } catch (const std::exception& error) {
      report({{}, name(), error.what()});
    }
  }

  void report_leaks() {
    constexpr std::size_t most = 8;
    const auto left = book_.list(true);
    if (left.empty()) return;
    std::size_t bytes = 0;
    for (const TrackedBuffer& buffer : left) bytes += buffer.bytes;
    report({{},
            name(),
            std::to_string(left.size()) + " buffers of " + std::to_string(bytes) +
                " bytes live on after the last handle of their resource"});
    for (std::size_t i = 0; i < std::min(most, left.size()); ++i) report({{}, name(), left[i].to_string()});
  }

  const TrackingOptions options_;
  mutable Book book_;
};

}  // namespace

TrackingPtr make_tracking(ResourcePtr upstream, const TrackingOptions& options) {
  return detail::make_adaptor<Tracking>(detail::checked_upstream(std::move(upstream), "make_tracking"),
                                        options);
}

}  // namespace weir
