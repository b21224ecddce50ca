// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of an exported tensor. It is kept for later exports of the thread that deletes it, so that most exports
// allocate nothing.

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

  /// Return one whose tensor has so many dimensions, with room for its shape and strides. Its other fields are not set.
  [[nodiscard]] static Owner take(std::size_t dimensions) {
    Kept& mine = kept;
    Owner taken(mine.first);
    if (taken) [[likely]] {
      mine.first = taken->next_;
      ++mine.room;
    } else {
      taken.reset(new Export);
    }
    std::int64_t* numbers = taken->few_.data();
    if (dimensions > usual) [[unlikely]] {
      taken->more_ = std::make_unique<std::int64_t[]>(2 * dimensions);
      numbers = taken->more_.get();
    }
    DLTensor& tensor = taken->managed.dl_tensor;
    tensor.ndim = static_cast<std::int32_t>(dimensions);
    tensor.shape = numbers;
    tensor.strides = numbers + dimensions;
    return taken;
  }
  /// End one that take() returned, on any thread.
  static void recycle(Export* ended) noexcept {
    if (ended->written_ != 0) [[unlikely]]
      ended->end_writes();
    if (spi::Block* const block = std::exchange(ended->block_, nullptr)) {
      Buffer last(*block);
      if (ended->consumer_) [[unlikely]]
        ended->end_work(last);
    }
    if (ended->more_) [[unlikely]]
      ended->more_.reset();
    Kept& mine = kept;
    if (mine.room == 0 && !mine.make_room()) [[unlikely]]
      return delete ended;
    --mine.room;
    ended->next_ = std::exchange(mine.first, ended);
  }

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
  /// Those that a thread has deleted. A deleter may run when the objects of the thread have ended already, so this has
  /// no end of its own.
  struct Kept {
    Export* first;
    unsigned room;  ///< how many more are kept
    bool used;      ///< the thread has deleted some, and sweeps them when it ends

    /// Called when there is no room. Return whether there is any now.
    bool make_room() noexcept;
    void sweep() noexcept;
  };
  static thread_local constinit Kept kept;

  void end_writes() noexcept;
  void end_work(Buffer& last) noexcept;

  static constexpr std::size_t usual = 6;  // dimensions
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
