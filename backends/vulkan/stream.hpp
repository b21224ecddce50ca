// SPDX-License-Identifier: Apache-2.0
#pragma once
// A weir stream on Vulkan: one timeline semaphore whose values are those of the front half, an open command buffer, and
// the batches that were submitted. A batch is submitted when somebody asks for a point of it, or when it grows too
// large.

#include <initializer_list>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "batch.hpp"
#include "driver.hpp"
#include "region_shader.hpp"
#include "segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::vulkan {

class Logical;
class Queue;

/// Base of everything that streams of one VkDevice can wait for on the device.
class Waitable : public spi::StreamState {
 public:
  Waitable(Logical& logical, std::shared_ptr<Timeline> timeline);

  /// Return the semaphore. `semaphore_value` says what it counts when the submitted `value` is complete.
  [[nodiscard]] const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }
  [[nodiscard]] virtual std::uint64_t semaphore_value(std::uint64_t value) const noexcept {
    return timeline_->raw(timeline_->signal_for(value));
  }
  [[nodiscard]] Logical& logical() const noexcept { return logical_; }

 protected:
  std::uint64_t do_poll() override;
  WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) override;

  Logical& logical_;
  std::shared_ptr<Timeline> timeline_;
};

/// A timeline with one point, value 1: that is a value of an application's timeline semaphore, and counts as submitted.
class ForeignPoint final : public Waitable {
 public:
  ForeignPoint(Logical& logical, VkSemaphore semaphore, std::uint64_t value);
  [[nodiscard]] std::uint64_t semaphore_value(std::uint64_t) const noexcept override { return value_; }

 private:
  void do_copy(const spi::CopyOp&, std::uint64_t) override {}
  void do_fill(const spi::FillOp&, std::uint64_t) override {}
  void do_copy_region(const spi::RegionOp&, std::uint64_t) override {}
  void do_mark(std::uint64_t) override {}
  void do_flush() override {}
  std::uint64_t do_poll() override;
  WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) override;

  std::uint64_t value_;
};

class BatchedStream final : public Waitable {
 public:
  static constexpr std::size_t max_operations = 64;                ///< of one batch
  static constexpr std::size_t max_bytes = std::size_t{16} << 20;  ///< of one batch

  explicit BatchedStream(Logical& logical);  ///< throws
  ~BatchedStream() override;
  [[nodiscard]] Queue& queue() const noexcept { return queue_; }

  /// Submit an application's commands, which touch `memories`, as the operation `value`. Called by NativeOp. If the
  /// driver refuses, this throws, and the stream is as it was before.
  void run(const std::vector<VkCommandBuffer>& commands, const std::vector<Memory*>& memories, std::uint64_t value);

 private:
  void do_copy(const spi::CopyOp& op, std::uint64_t value) override;
  void do_fill(const spi::FillOp& op, std::uint64_t value) override;
  void do_copy_region(const spi::RegionOp& op, std::uint64_t value) override;
  void do_wait(const spi::WaitOp& op, std::uint64_t value) override;
  void do_mark(std::uint64_t value) override;
  void do_flush() override;
  bool waits_natively(const spi::StreamState& other) const noexcept override;

  /// One range that commands of the open batch touch.
  struct Access {
    const Memory* memory;
    std::size_t begin, end;
    bool write;
  };

  // copy.cpp
  void copy(Memory& dst, std::size_t dst_offset, Memory& src, std::size_t src_offset, std::size_t bytes);
  void fill_words(Memory& dst, std::size_t offset, std::size_t bytes, std::uint32_t word);
  void fill_from_scratch(Memory& dst, std::size_t offset, std::size_t bytes, std::uint64_t pattern,
                         std::size_t pattern_bytes);

  // copy_region.cpp
  [[nodiscard]] RowDispatches dispatches_for(const spi::RegionOp& op) const;
  void dispatch(const RowDispatches& dispatches, const RegionShader::Pipeline& shader);
  void copy_rows(const spi::RegionOp& op, std::vector<VkBufferCopy>& regions);

  // application.cpp
  void enclose(Batch& batch, const std::vector<Memory*>& memories);
  void forget_commands() noexcept;

  void open();
  void order(std::initializer_list<Access> accesses);
  void barrier(VkPipelineStageFlags from, VkAccessFlags from_access, VkPipelineStageFlags to, VkAccessFlags to_access);
  void transfer(const Memory& memory, bool acquire);
  void recorded(std::uint64_t value, std::size_t bytes);
  void submit();
  void close_commands(VkPipelineStageFlags writers, VkAccessFlags writes);
  void submit_batch(const Batch& batch, std::span<const VkCommandBuffer> commands);
  std::unique_ptr<Slot> take_slot();
  Flight& flight() noexcept { return flight_.front(); }
  void retire() noexcept;

  Queue& queue_;
  std::unique_ptr<Slot> open_;         // being recorded
  std::vector<Access> accesses_;       // since the last barrier of the open batch
  std::vector<const Memory*> shared_;  // acquired from outside by the open batch
  std::size_t operations_ = 0;         // in the open batch
  std::size_t bytes_ = 0;
  bool host_reads_ = false;                        // the open batch writes memory that the host can read
  std::vector<std::shared_ptr<Timeline>> waited_;  // for the next submit
  std::vector<std::uint64_t> wait_values_;
  unsigned doing_ = 0;           // bits of Doing, since the last submit
  std::uint64_t last_ = 0;       // value of the last operation that was recorded, waited for or marked
  std::list<Flight> flight_{1};  // a list, so that burying it needs no memory
  std::vector<std::unique_ptr<Slot>> idle_;
};

}  // namespace weir::vulkan
