// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include "device.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "names.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

constexpr std::size_t max_idle_slots = 8;
constexpr VkPipelineStageFlags everything = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
constexpr VkAccessFlags any_write = VK_ACCESS_MEMORY_WRITE_BIT;
constexpr VkAccessFlags any_access = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;

}  // namespace

Waitable::Waitable(Logical& logical, std::shared_ptr<Timeline> timeline)
    : StreamState(logical.device), logical_(logical), timeline_(std::move(timeline)) {}

std::uint64_t Waitable::do_poll() { return timeline_->value(); }

WaitStatus Waitable::do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) {
  return timeline_->wait(value, timeout);
}

ForeignPoint::ForeignPoint(Logical& logical, VkSemaphore semaphore, std::uint64_t value)
    : Waitable(logical, std::make_shared<Timeline>(logical, semaphore)), value_(value) {
  put(spi::MarkOp{});
}

std::uint64_t ForeignPoint::do_poll() { return Waitable::do_poll() >= value_ ? 1 : 0; }

WaitStatus ForeignPoint::do_wait_host(std::uint64_t, std::chrono::nanoseconds timeout) {
  return Waitable::do_wait_host(value_, timeout);
}

BatchedStream::BatchedStream(Logical& logical)
    : Waitable(logical, std::make_shared<Timeline>(logical)), queue_(logical.next_queue()) {
  accesses_.reserve(2 * max_operations);
  idle_.reserve(max_idle_slots);
  flight().timeline = timeline_;
  name_timeline(logical, timeline_->semaphore(), id());
  logical.collect();
  logical.add_stream(1);
}

// Nobody can reach the stream any more. What was recorded still runs, and submitted batches are destroyed when they are
// complete.
BatchedStream::~BatchedStream() {
  const DriverCall call(Doing::end);
  if (!call) return;
  try {
    if (!lost()) do_flush();
  } catch (const std::system_error& error) {
    report({error.code(), "end of a Vulkan stream", error.what()});
  } catch (const std::exception& error) {
    report({{}, "end of a Vulkan stream", error.what()});
  }
  open_.reset();
  idle_.clear();
  waited_.clear();
  timeline_.reset();
  logical_.bury(std::move(flight_));
  logical_.add_stream(-1);  // last, because from now on the device may end
}

bool BatchedStream::waits_natively(const spi::StreamState& other) const noexcept {
  const auto* waitable = dynamic_cast<const Waitable*>(&other);
  return waitable && &waitable->logical() == &logical_;
}

// Commands that were recorded before must not wait, so they are submitted first.
void BatchedStream::do_wait(const spi::WaitOp& op, std::uint64_t value) {
  const DriverCall call(Doing::follow);
  if (!call) return;
  if (open_ && last_ > flight().value) submit();
  doing_ |= static_cast<unsigned>(Doing::submit_follow);
  auto& waitable = static_cast<Waitable&>(*op.other);
  const auto found = std::find(waited_.begin(), waited_.end(), waitable.timeline());
  const auto wait_value = waitable.semaphore_value(op.value);
  if (found != waited_.end()) {
    auto& known = wait_values_[static_cast<std::size_t>(found - waited_.begin())];
    known = std::max(known, wait_value);
  } else {
    wait_values_.reserve(wait_values_.size() + 1);
    waited_.push_back(waitable.timeline());
    wait_values_.push_back(wait_value);
  }
  last_ = value;
}

void BatchedStream::do_mark(std::uint64_t value) { last_ = std::max(last_, value); }

void BatchedStream::do_flush() {
  const DriverCall call(Doing::submit);
  if (!call || last_ <= flight().value) return;
  submit();
}

void BatchedStream::open() {
  if (open_) return;
  auto slot = take_slot();
  slot->begin();
  open_ = std::move(slot);
  barrier(everything, any_write, everything, any_access);  // orders this batch after the earlier ones
}

// Prepare for commands that touch `now`. If they depend on anything since the last barrier, under whatever name of the
// memory, record a barrier. Then acquire shared memory, behind that barrier, because an acquire makes nothing
// available.
void BatchedStream::order(std::initializer_list<Access> now) {
  bool dependent = false;
  std::array<const Memory*, 2> foreign{};
  std::size_t foreigners = 0;
  for (const Access& a : now) {
    const auto same = [&a](const Memory* known) { return known->whole == a.memory->whole; };
    if (a.memory->shared && std::none_of(shared_.begin(), shared_.end(), same) &&
        std::none_of(foreign.begin(), foreign.begin() + foreigners, same)) {
      foreign[foreigners++] = a.memory;
      // All of the memory is acquired, also what this batch has written after it was acquired under another name.
      const auto other_name = [&a](const Memory* known) { return known->known_as(*a.memory); };
      dependent = dependent || std::any_of(shared_.begin(), shared_.end(), other_name);
    }
    if (a.write && a.memory->host_reads) host_reads_ = true;
    for (const Access& b : accesses_) {
      dependent = dependent || ((a.write || b.write) && a.memory->overlaps(a.begin, a.end, *b.memory, b.begin, b.end));
    }
  }
  if (dependent) {
    if (foreigners != 0)
      barrier(VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, everything, any_access);
    else
      barrier(VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
              VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    accesses_.clear();
  }
  for (const Memory* memory : std::span(foreign).first(foreigners)) {
    shared_.push_back(memory);
    transfer(*memory, true);
    did(Doing::acquire);
    doing_ |= static_cast<unsigned>(Doing::submit_acquire);
  }
  accesses_.insert(accesses_.end(), now);
}

void BatchedStream::barrier(VkPipelineStageFlags from, VkAccessFlags from_access, VkPipelineStageFlags to,
                            VkAccessFlags to_access) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, from_access, to_access};
  logical_.fn.vkCmdPipelineBarrier(open_->commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// Between batches, shared memory belongs to the "external" queue family. Other processes and APIs do the same on their
// side.
void BatchedStream::transfer(const Memory& memory, bool acquire) {
  VkBufferMemoryBarrier change{};
  change.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER;
  change.srcAccessMask = acquire ? 0 : any_write;
  change.dstAccessMask = acquire ? any_access : 0;
  change.srcQueueFamilyIndex = acquire ? VK_QUEUE_FAMILY_EXTERNAL : logical_.device.family;
  change.dstQueueFamilyIndex = acquire ? logical_.device.family : VK_QUEUE_FAMILY_EXTERNAL;
  change.buffer = memory.whole;
  change.size = VK_WHOLE_SIZE;
  logical_.fn.vkCmdPipelineBarrier(open_->commands, everything, everything, 0, 0, nullptr, 1, &change, 0, nullptr);
}

void BatchedStream::recorded(std::uint64_t value, std::size_t bytes) {
  last_ = value;
  ++operations_;
  bytes_ += bytes;
  if (operations_ < max_operations && bytes_ < max_bytes) return;
  try {
    submit();
  } catch (const std::bad_alloc&) {
    if (lost()) throw;  // else there was no memory for one more batch, and this one stays open until the next attempt
  }
}

// `writers` and `writes` say how the commands before have written.
void BatchedStream::close_commands(VkPipelineStageFlags writers, VkAccessFlags writes) {
  for (const auto* memory : shared_) transfer(*memory, false);
  if (host_reads_)
    barrier(writers, writes, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
  shared_.clear();
  accesses_.clear();
  operations_ = 0;
  bytes_ = 0;
  host_reads_ = false;
  check(logical_.fn.vkEndCommandBuffer(open_->commands), "vkEndCommandBuffer", logical_.name());
}

// If a batch cannot be submitted, the stream is lost, because operations that were accepted are gone.
void BatchedStream::submit() {
  auto& batches = flight().batches;
  Batch& batch = batches.emplace_back();
  try {
    if (open_) close_commands(VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT);
    batch.value = last_;
    batch.slot = std::move(open_);
    batch.waited = std::exchange(waited_, {});
    timeline_->signalled(last_);
    submit_batch(batch, {batch.slot ? &batch.slot->commands : nullptr, batch.slot ? 1U : 0U});
    wait_values_.clear();
  } catch (...) {
    // Memory that the lost work was to use is not free before these waits are over, so the next batch has them again.
    if (!batch.waited.empty()) waited_ = std::move(batch.waited);
    batches.pop_back();
    open_.reset();
    lose(std::current_exception());
    throw;
  }
  flight().value = last_;
  retire();
  logical_.collect();
}

void BatchedStream::submit_batch(const Batch& batch, std::span<const VkCommandBuffer> commands) {
  std::vector<VkSemaphore> semaphores;
  for (const auto& timeline : batch.waited) semaphores.push_back(timeline->semaphore());
  const std::vector<VkPipelineStageFlags> stages(semaphores.size(), everything);
  const VkSemaphore own = timeline_->semaphore();
  const std::uint64_t signal = timeline_->raw(batch.value);
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = static_cast<std::uint32_t>(wait_values_.size());
  values.pWaitSemaphoreValues = wait_values_.data();
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &signal;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  info.pWaitSemaphores = semaphores.data();
  info.pWaitDstStageMask = stages.data();
  info.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &own;
  const std::scoped_lock lock(queue_);
  check(logical_.fn.vkQueueSubmit(queue_.handle, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit", logical_.name());
  did(static_cast<Doing>(std::exchange(doing_, 0U)));
}

std::unique_ptr<Slot> BatchedStream::take_slot() {
  if (idle_.empty()) retire();
  if (idle_.empty()) return std::make_unique<Slot>(logical_);
  auto slot = std::move(idle_.back());
  idle_.pop_back();
  return slot;
}

void BatchedStream::retire() noexcept {
  auto& batches = flight().batches;
  while (!batches.empty() && timeline_->passed(batches.front().value)) {
    for (auto* slot : {&batches.front().slot, &batches.front().after})
      if (*slot && idle_.size() < idle_.capacity()) idle_.push_back(std::move(*slot));
    timeline_->completed(batches.front().value);
    batches.pop_front();
  }
}

}  // namespace weir::vulkan
