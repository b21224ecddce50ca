// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of an exported tensor. It is kept for later exports of the thread that deletes it, so that most exports
// allocate nothing.

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "weir/buffer.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/ref.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// A tensor of DLPack, the shape and strides to which it points, and the owner of the memory.
class Export {
 public:
  struct Recycle {
    void operator()(Export* ended) const noexcept { recycle(ended); }
  };
  using Owner = std::unique_ptr<Export, Recycle>;

  /// Return one with that shape and these strides, which are equally many.
  [[nodiscard]] static Owner take(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);
  /// End one that take() returned, on any thread.
  static void recycle(Export* ended) noexcept;

  [[nodiscard]] std::int64_t* shape() noexcept { return more_ ? more_.get() : few_.data(); }
  [[nodiscard]] std::int64_t* strides() noexcept { return shape() + dimensions_; }

  /// Take over one owner of `block`.
  void hold(spi::Block& block) noexcept { block_ = &block; }
  /// At the end, let the memory's reuse come after the work that is on `consumer` then. The block has a use of it.
  void follow(const Stream& consumer) { consumer_ = consumer; }
  /// The same for all work that is on the device then. `everything` is what StreamState::stand_in returns.
  void outlive(spi::Ref<spi::StreamState> everything) {
    consumer_.emplace(std::move(everything));
    everything_ = true;
  }
  /// At the end, show the device what the host wrote to the held block. Called after hold().
  void show_writes(std::size_t offset, std::size_t bytes) noexcept {
    written_at_ = offset;
    written_ = bytes;
  }

  /// The two structs that may be handed over. Only one of them is.
  ///@{
  DLManagedTensorVersioned managed{};
  DLManagedTensor legacy{};
  ///@}
 private:
  struct Kept;
  static bool keep(Export& ended) noexcept;
  void end_writes() const noexcept;
  void end_work(Buffer& last) noexcept;

  static constexpr std::size_t usual = 6;  // dimensions
  std::size_t dimensions_ = 0;
  std::array<std::int64_t, 2 * usual> few_;
  std::unique_ptr<std::int64_t[]> more_;
  spi::Block* block_ = nullptr;
  std::optional<Stream> consumer_;  // whose work comes before the end
  bool everything_ = false;         // the consumer stands for all work of the device
  std::size_t written_at_ = 0;      // in the segment
  std::size_t written_ = 0;         // bytes
  Export* next_ = nullptr;
};

}  // namespace weir::detail
