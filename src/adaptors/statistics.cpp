// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/statistics.hpp"

#include <iterator>
#include <list>

#include "adaptors/adaptor.hpp"

namespace weir {
namespace {

/// The figures of the resource's whole life, at one moment.
struct Moment {
  std::size_t bytes = 0, buffers = 0;
  std::uint64_t all_bytes = 0, all_buffers = 0, refused = 0;
};

struct Peaks {
  std::size_t bytes = 0, buffers = 0;
  void raise(std::size_t bytes_now, std::size_t buffers_now) noexcept {
    bytes = std::max(bytes, bytes_now);
    buffers = std::max(buffers, buffers_now);
  }
};

struct Scope {
  std::uint64_t number;
  bool pushed;
  Moment begin;
  Peaks peaks;  // up to the last time that any scope began or ended
};

Counter counter(std::size_t now, std::size_t begin, std::size_t peak, std::uint64_t total) noexcept {
  return {static_cast<std::ptrdiff_t>(now - begin), static_cast<std::ptrdiff_t>(peak - begin), total};
}

class Statistics final : public detail::Adaptor<StatisticsResource> {
 public:
  explicit Statistics(ResourcePtr upstream) : Adaptor(std::move(upstream), "statistics") {
    scopes_.push_back({0, false, {}, {}});
  }

  [[nodiscard]] AllocationStatistics statistics() const override {
    const std::scoped_lock guard(lock());
    return figures(*innermost());
  }
  void push_counters() override { begin(true); }
  AllocationStatistics pop_counters() override {
    Scopes ended;  // freed without the lock
    const std::scoped_lock guard(lock());
    const auto last = innermost();
    if (!last->pushed) throw Error(Errc::invalid_argument, "pop_counters: nothing was pushed on " + name());
    const AllocationStatistics result = figures(*last);
    settle();
    ended.splice(ended.end(), scopes_, last);
    return result;
  }

 private:
  using Scopes = std::list<Scope>;

  std::uint64_t begin_scope() override { return begin(false); }
  [[nodiscard]] AllocationStatistics scope(std::uint64_t number) const override {
    const std::scoped_lock guard(lock());
    return figures(*find(number));
  }
  void end_scope(std::uint64_t number) noexcept override {
    Scopes ended;
    const std::scoped_lock guard(lock());
    settle();
    ended.splice(ended.end(), scopes_, find(number));
  }

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* const block = take(request, shortage);
    if (!block) {
      const std::scoped_lock guard(lock());
      ++refused_;
      return nullptr;
    }
    came(request.bytes, [&] {
      all_bytes_ += request.bytes;
      ++all_buffers_;
      peaks_.raise(in_use(), live());
    });
    return block;
  }

  std::uint64_t begin(bool pushed) {
    Scopes begun{{0, pushed, {}, {}}};
    const std::scoped_lock guard(lock());
    settle();
    Scope& scope = begun.front();
    scope.number = ++last_number_;
    scope.begin = now();
    scope.peaks.raise(in_use(), live());
    scopes_.splice(scopes_.end(), begun);
    return scope.number;
  }

  // Everything below needs lock().

  /// Hand every scope the peaks since the last call.
  void settle() noexcept {
    for (Scope& scope : scopes_) scope.peaks.raise(peaks_.bytes, peaks_.buffers);
    peaks_ = {};
    peaks_.raise(in_use(), live());
  }
  [[nodiscard]] Moment now() const noexcept { return {in_use(), live(), all_bytes_, all_buffers_, refused_}; }
  [[nodiscard]] AllocationStatistics figures(const Scope& scope) const noexcept {
    const Moment end = now();
    Peaks peaks = scope.peaks;
    peaks.raise(peaks_.bytes, peaks_.buffers);
    return {
        counter(end.bytes, scope.begin.bytes, peaks.bytes, end.all_bytes - scope.begin.all_bytes),
        counter(end.buffers, scope.begin.buffers, peaks.buffers, end.all_buffers - scope.begin.all_buffers),
        end.refused - scope.begin.refused};
  }
  /// Return the last scope that was pushed, or the scope of the whole life when there is none.
  [[nodiscard]] Scopes::const_iterator innermost() const noexcept {
    auto last = scopes_.end();
    do --last;
    while (last != scopes_.begin() && !last->pushed);
    return last;
  }
  [[nodiscard]] Scopes::const_iterator find(std::uint64_t number) const noexcept {
    return std::find_if(scopes_.begin(), scopes_.end(),
                        [&](const Scope& scope) { return scope.number == number; });
  }

  std::uint64_t all_bytes_ = 0, all_buffers_ = 0, refused_ = 0;
  std::uint64_t last_number_ = 0;
  Peaks peaks_;    // since any scope last began or ended
  Scopes scopes_;  // in the order in which they began; the first is that of the whole life
};

}  // namespace

StatisticsPtr make_statistics(ResourcePtr upstream) {
  return detail::make_adaptor<Statistics>(detail::checked_upstream(std::move(upstream), "make_statistics"));
}

StatisticsScope::StatisticsScope(StatisticsPtr resource) : resource_(std::move(resource)), number_(0) {
  if (!resource_) throw Error(Errc::invalid_argument, "StatisticsScope: the resource is null");
  number_ = resource_->begin_scope();
}

StatisticsScope::~StatisticsScope() { resource_->end_scope(number_); }

AllocationStatistics StatisticsScope::statistics() const { return resource_->scope(number_); }

}  // namespace weir
