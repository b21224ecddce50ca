// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/segment.hpp"

#include <array>
#include <atomic>
#include <random>
#include <stdexcept>
#include <string>

#include "device/segment_ends.hpp"
#include "weir/error.hpp"

namespace weir {
namespace {

constinit std::atomic<detail::SegmentEnd> hears_of_end{nullptr};

}  // namespace

void detail::answer_for_segment_ends(SegmentEnd hear) noexcept { hears_of_end.store(hear, std::memory_order_release); }

namespace spi {

void ref_retain(Segment* object) noexcept { object->retain(); }
void ref_release(Segment* object) noexcept { object->release(); }

Segment::~Segment() {
  if (id_low_.load(std::memory_order_acquire) != 0) {
    const auto hear = hears_of_end.load(std::memory_order_acquire);
    if (hear) hear(*this);
  }
  if (!owner_release) return;
  try {
    owner_release();
  } catch (const std::exception& error) {
    report({{}, "release of adopted memory", error.what()});
  } catch (...) {
    report({{}, "release of adopted memory", "unknown exception"});
  }
}

// Each view owns the memory while it ends, so the memory ends with the last of them.
void Segment::end_views() noexcept {
  Segment* view = views_.exchange(nullptr, std::memory_order_relaxed);
  retain();  // until all views are told
  while (view) {
    Segment& ending = *view;
    view = ending.next_view_;
    ending.source_ = Ref<Segment>::retain(this);
    ending.release();
  }
  release();
}

SegmentId Segment::id() {
  if (id_low_.load(std::memory_order_acquire) == 0) {
    std::array<std::uint32_t, 4> random;
    try {
      std::random_device device_of_the_system;
      for (std::uint32_t& part : random) part = device_of_the_system();
    } catch (const std::runtime_error& error) {
      throw Error(Errc::unsupported, std::string("the segment gets no random name: ") + error.what());
    }
    const auto word = [&](std::size_t at) { return std::uint64_t{random[at]} << 32 | random[at + 1]; };
    // Two threads may race, so the high word is settled before the low word publishes it.
    std::uint64_t none = 0;
    id_high_.compare_exchange_strong(none, word(0) | 1);
    none = 0;
    id_low_.compare_exchange_strong(none, word(2) | 1);
  }
  return {id_high_.load(std::memory_order_acquire), id_low_.load(std::memory_order_acquire)};
}

bool Segment::known_as(const Segment& other) const noexcept {
  const auto low = id_low_.load(std::memory_order_acquire);
  return low != 0 && low == other.id_low_.load(std::memory_order_acquire) &&
         id_high_.load(std::memory_order_relaxed) == other.id_high_.load(std::memory_order_relaxed);
}

void Segment::set_id(SegmentId id) noexcept {
  id_high_.store(id.high, std::memory_order_relaxed);
  id_low_.store(id.low, std::memory_order_release);
}

}  // namespace spi
}  // namespace weir
