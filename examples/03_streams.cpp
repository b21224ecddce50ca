// SPDX-License-Identifier: Apache-2.0
// Order between two streams by an event; bounded waits.
#include <chrono>
#include <cstdio>

#include "weir/weir.hpp"

int main() {
  using namespace std::chrono_literals;
  const weir::Device device = weir::best_device();
  const weir::Stream producer{device};
  const weir::Stream consumer{weir::host_device()};  // any two backends

  weir::Buffer made = weir::make_resource(device)->allocate(8 << 20, producer);
  made.fill(std::uint32_t{0xC0FFEE}, producer);
  const weir::Event ready = producer.record();  // the point after the fill

  weir::Buffer seen = weir::make_resource(weir::host_device())->allocate(made.size(), consumer);
  consumer.wait(ready);  // orders; nothing blocks
  seen.copy_from(made, consumer);
  consumer.call([] { std::puts("the consumer's stream has passed the copy"); });

  if (consumer.synchronize(0ns) == weir::WaitStatus::timeout) std::puts("still running, and nothing was cancelled");
  if (consumer.synchronize(30s) != weir::WaitStatus::ready) return 1;

  std::uint32_t last = 0;
  std::memcpy(&last, seen.host_data() + seen.size() - sizeof last, sizeof last);
  std::printf("%s wrote %x, the host read %x\n", device.id().c_str(), 0xC0FFEEu, last);
  return last == 0xC0FFEE ? 0 : 1;
}
