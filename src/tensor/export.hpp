// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of an exported tensor. It is kept for later exports of the thread that deletes it, so that most exports
// allocate nothing.

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "weir/layout.hpp"
#include "weir/spi/block.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// A tensor of DLPack, the shape and strides to which it points, and the owner of the memory.
class Export {
 public:
  struct Recycle {
    void operator()(Export* ended) const noexcept { recycle(ended); }
  };
  using Owner = std::unique_ptr<Export, Recycle>;

  /// Return one with the shape and strides of `layout`.
  [[nodiscard]] static Owner take(const Layout& layout);
  /// End one that take() returned, on any thread.
  static void recycle(Export* ended) noexcept;

  [[nodiscard]] std::int64_t* shape() noexcept { return more_ ? more_.get() : few_.data(); }
  [[nodiscard]] std::int64_t* strides() noexcept { return shape() + dimensions_; }

  /// Take over one owner of `block`.
  void hold(spi::Block& block) noexcept { block_ = &block; }

  DLManagedTensorVersioned managed{};
  std::optional<Stream> consumer;  ///< whose work on the memory comes before its end

 private:
  struct Kept;
  static Kept* kept() noexcept;
  void set(const Layout& layout);

  static constexpr std::size_t usual = 6;  // dimensions
  std::size_t dimensions_ = 0;
  std::array<std::int64_t, 2 * usual> few_;
  std::unique_ptr<std::int64_t[]> more_;
  spi::Block* block_ = nullptr;
  Export* next_ = nullptr;
};

}  // namespace weir::detail
