// SPDX-License-Identifier: Apache-2.0
// Nothing has to outlive anything, and nothing lives for ever: resources and streams end after the last that needs
// them.

#include <cstdint>
#include <thread>

#include "fixture.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"

namespace weir::test {
namespace {

class Lifetime : public OnMemory {
 protected:
  /// The resource and all that it stands on, observed.
  [[nodiscard]] std::vector<std::weak_ptr<MemoryResource>> layers() const {
    std::vector<std::weak_ptr<MemoryResource>> all;
    for (ResourcePtr layer = resource; layer; layer = layer->upstream()) all.emplace_back(layer);
    return all;
  }
  /// A buffer leads to the whole stack, also when nobody else has a handle.
  static void expect_alive(const Buffer& buffer) {
    std::size_t layers = 0;
    for (ResourcePtr layer = buffer.memory_resource(); layer; layer = layer->upstream()) {
      EXPECT_GE(layer->stats().live_buffers, buffer.size() == 0 ? 0U : 1U);
      ++layers;
    }
    EXPECT_EQ(layers, GetParam().layers() + 1);
  }
  /// The watchdog ends a run in which one of them never goes; a worker may hold it for a moment longer.
  void await_end(const std::vector<std::weak_ptr<MemoryResource>>& layers) const {
    GetParam().plain().make()->trim(0);  // waits for releases of the whole device
    for (const auto& layer : layers) {
      while (!layer.expired()) std::this_thread::yield();
    }
  }
};
WEIR_FOR_EACH_MEMORY(Lifetime);

TEST_P(Lifetime, AResourceEndsAfterItsLastBuffer) {
  const auto observed = layers();
  Buffer first = filled(pattern(1000, 1));
  Buffer second = resource->allocate(0, stream);
  resource.reset();
  first.close();
  expect_alive(second);
  second.close();
  stream.synchronize();
  await_end(observed);
}

TEST_P(Lifetime, OfManyBuffersTheLastCounts) {
  const auto observed = layers();
  std::vector<Buffer> buffers;
  for (std::size_t i = 1; i < 20; ++i) buffers.push_back(resource->allocate(i, stream));
  resource.reset();
  while (buffers.size() > 1) buffers.pop_back();
  expect_alive(buffers.front());
  Buffer copy = buffers.front().copy_to(stream);
  buffers.clear();
  expect_alive(copy);
  copy.close();
  stream.synchronize();
  await_end(observed);
}

TEST_P(Lifetime, PendingReleasesKeepIt) {
  const auto observed = layers();
  Bytes seen(1000);
  Gate gate;
  Event end;
  {
    const Stream other(device());
    Buffer source = filled(pattern(1000, 2));
    gate.hold(other);
    source.copy_to(seen, other);
    end = other.record();
  }
  resource.reset();
  EXPECT_FALSE(end.done());
  gate.open();
  end.wait();
  EXPECT_BYTES(seen, pattern(1000, 2));
  await_end(observed);
}

TEST_P(Lifetime, OfThreadsThatDropItLastWins) {
  const auto observed = layers();
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([mine = resource, own = Stream(device())]() mutable {
      Buffer buffer = mine->allocate(64, own);
      mine.reset();
      buffer.fill(std::uint8_t{1}, own);
    });
  }
  resource.reset();
  for (Thread& thread : threads) thread.join();
  await_end(observed);
}

class LifetimeOfTensors : public Lifetime {};
WEIR_FOR_EACH_ADDRESSABLE(LifetimeOfTensors);

TEST_P(LifetimeOfTensors, ATensorTakenBackInKeepsTheResource) {
  const auto observed = layers();
  Buffer source = filled(pattern(1000, 3));
  Tensor tensor = from_dlpack(source.view(u8, {1000}).to_dlpack(stream).release(), stream);
  source.close();
  resource.reset();
  stream = Stream(device());
  EXPECT_FALSE(observed.back().expired());
  EXPECT_BYTES(read(tensor.buffer(), stream), pattern(1000, 3));
  const ResourcePtr external = tensor.buffer().memory_resource();
  tensor.buffer().close();
  stream.synchronize();
  external->trim(0);
  await_end(observed);
}

}  // namespace
}  // namespace weir::test
