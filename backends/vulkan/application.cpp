// SPDX-License-Identifier: Apache-2.0
// An application's own commands on a stream. They become a batch of their own: first commands of weir's, which make
// everything earlier visible and acquire memory that others share; then the application's; then weir's again, which
// release that memory and show what was written to the host. Later batches begin with a barrier after everything that
// was submitted before.
#include <algorithm>
#include <chrono>
#include <exception>
#include <list>
#include <string>
#include <utility>

#include "errors.hpp"
#include "handles.hpp"
#include "logical.hpp"
#include "weir/error.hpp"
#include "weir/spi/block.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan {
namespace {

constexpr VkPipelineStageFlags everything = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
constexpr VkAccessFlags any_write = VK_ACCESS_MEMORY_WRITE_BIT;

/// The buffers that work of an application touches.
class Used {
 public:
  /// Checks each of them, and takes all memory that is needed to put them on record.
  Used(BatchedStream& stream, const BufferList& buffers, const char* what) : stream_(stream) {
    for (const Buffer& buffer : buffers) {
      std::size_t offset = 0;
      Memory* const memory = memory_of(buffer, what, offset, &stream.device());
      if (!memory) continue;
      if (&memory->logical != &stream.logical())
        throw Error(Errc::invalid_argument, std::string(what) + ": a buffer is of " + memory->logical.name() +
                                                ", and the stream of " + stream.logical().name());
      memories.push_back(memory);
      blocks_.push_back(buffer.block());
      blocks_.back()->used(stream, 0);
    }
  }
  void record(std::uint64_t value) {
    for (spi::Block* block : blocks_) block->used(stream_, value);
  }

  std::vector<Memory*> memories;

 private:
  BatchedStream& stream_;
  std::vector<spi::Block*> blocks_;
};

Event point(BatchedStream& stream, std::uint64_t value) { return {spi::Ref<spi::StreamState>::retain(&stream), value}; }

}  // namespace

Event submit(const Stream& stream, const std::vector<VkCommandBuffer_T*>& commands, const BufferList& buffers) {
  constexpr const char* what = "vulkan::submit";
  auto& state = stream_of(stream, what);
  if (commands.empty() || std::find(commands.begin(), commands.end(), nullptr) != commands.end())
    throw Error(Errc::invalid_argument, std::string(what) + ": there is no command buffer, or one is null");
  Used used(state, buffers, what);
  const auto value = state.put(spi::NativeOp{
      [&state, commands, memories = used.memories](std::uint64_t number) { state.run(commands, memories, number); }});
  used.record(value);
  return point(state, value);
}

Event submit_elsewhere(const Stream& stream, const SemaphorePoint& done,
                       const std::function<void(const NativeStream&)>& function, const BufferList& buffers) {
  constexpr const char* what = "vulkan::submit_elsewhere";
  auto& state = stream_of(stream, what);
  if (!done.semaphore) throw Error(Errc::invalid_argument, std::string(what) + ": the semaphore is null");
  Used used(state, buffers, what);
  const auto theirs = spi::Ref<spi::StreamState>::adopt(new ForeignPoint(state.logical(), done.semaphore, done.value));
  function(native(stream));
  std::uint64_t value = 0;
  try {
    value = state.put(spi::WaitOp{spi::Kept(*theirs), 1});
  } catch (const std::exception&) {  // the work is submitted all the same, so the host waits for it
    if (theirs->wait_for(1, std::chrono::nanoseconds{-1}) != WaitStatus::ready || state.lost()) throw;
    value = state.issued();
  }
  used.record(value);
  return point(state, value);
}

// Work of weir's that is recorded is submitted before, so that a refusal of the application's commands cannot lose it.
void BatchedStream::run(const std::vector<VkCommandBuffer>& commands, const std::vector<Memory*>& memories,
                        std::uint64_t value) {
  const DriverCall call(Doing::submit);
  if (!call) return;
  if (last_ > flight().value) submit();
  std::list<Batch> own(1);  // joins the others only once it has a value: recording may retire those that are complete
  Batch& batch = own.front();
  bool told = false;
  try {
    enclose(batch, memories);
    std::vector<VkCommandBuffer> all{batch.slot->commands};
    all.insert(all.end(), commands.begin(), commands.end());
    all.push_back(batch.after->commands);
    batch.value = value;
    timeline_->signalled(value);
    told = true;
    submit_batch(batch, all);
  } catch (const std::exception& error) {
    if (told) timeline_->not_signalled();
    forget_commands();
    const auto* refusal = dynamic_cast<const Error*>(&error);
    if (refusal && refusal->code() == Errc::device_lost) lose(std::current_exception());
    throw;
  }
  flight().batches.splice(flight().batches.end(), own);
  last_ = flight().value = value;
  retire();
  logical_.collect();
}

// Record what comes before and after the commands that touch `memories`.
void BatchedStream::enclose(Batch& batch, const std::vector<Memory*>& memories) {
  open();
  for (const Memory* memory : memories) order({{memory, 0, memory->size, true}});
  auto after = take_slot();
  after->begin();
  check(logical_.fn.vkEndCommandBuffer(open_->commands), "vkEndCommandBuffer", logical_.name());
  batch.slot = std::exchange(open_, std::move(after));
  close_commands(everything, any_write);
  batch.after = std::move(open_);
}

// Drop what was recorded, none of which counts as accepted.
void BatchedStream::forget_commands() noexcept {
  open_.reset();
  shared_.clear();
  accesses_.clear();
  operations_ = 0;
  bytes_ = 0;
  host_reads_ = false;
}

}  // namespace weir::vulkan
