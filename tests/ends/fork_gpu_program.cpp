// SPDX-License-Identifier: Apache-2.0
// Forks with live objects of a driver: fork_gpu_program <case> <device>. In the child the driver's code cannot be run.
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "folder.hpp"
#include "forking.hpp"
#include "weir/held_set.hpp"
#include "weir/holder.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/vulkan.hpp"

namespace weir::test {
namespace {

constexpr std::byte before{1}, after{2};
std::string wanted;

/// Loads the driver and knows its libraries.
struct Loaded {
  Libraries libraries;  // first
  Device device = test::device_named(wanted.c_str());
};

void refused(const char* what, const std::function<void()>& action) {
  require_error(what, Errc::unsupported, "forked", action);
}

#if WEIR_HAS_VULKAN
// Of whatever was made before the fork: it is not looked at.
void refuse_adoption() {
  vulkan::AdoptOptions options;
  options.instance = reinterpret_cast<VkInstance_T*>(&options);
  options.physical_device = reinterpret_cast<VkPhysicalDevice_T*>(&options);
  options.device = reinterpret_cast<VkDevice_T*>(&options);
  options.get_instance_proc_addr = [](VkInstance_T*, const char*) -> void (*)() { _exit(1); };
  options.queues = {{reinterpret_cast<VkQueue_T*>(&options), {}, {}}};
  options.timeline_semaphore = true;
  refused("vulkan::adopt", [&] { (void)vulkan::adopt(options); });
}
#endif

void refuse_everything(Things& things) {
  const Device& device = things.device;
#if WEIR_HAS_VULKAN
  if (device.backend() == "vulkan") refuse_adoption();
#endif
  const Stream& stream = things.streams[1];
  refused("Stream", [&] { (void)Stream(device); });
  refused("current_resource", [&] { (void)current_resource(device); });
  refused("set_current_resource", [&] { set_current_resource(device, things.resources[0]); });
  refused("record", [&] { (void)stream.record(); });
  refused("synchronize", [&] { stream.synchronize(); });
  refused("synchronize for a while", [&] { (void)stream.synchronize(std::chrono::seconds{5}); });
  refused("done", [&] { (void)stream.done(); });
  refused("call", [&] { stream.call([] {}); });
  refused("wait for a host stream", [&] {
    Latch latch;
    stream.wait(latch.event);
  });
  for (const ResourcePtr& resource : things.resources) {
    refused("allocate", [&] { (void)resource->allocate(64, stream); });
    refused("try_allocate", [&] { (void)resource->try_allocate(64, stream); });
    refused("allocate for a host stream", [&] { (void)resource->allocate(64, Stream(host_device())); });
    (void)resource->stats();
    (void)resource->trim(0);
    refused("a new resource's memory", [&] { (void)make_resource(device, resource->kind())->allocate(64, stream); });
  }
  const Stream of_host(host_device());
  Buffer bytes = make_resource(host_device())->allocate(small, of_host);
  refused("allocate host memory for the stream", [&] { (void)bytes.memory_resource()->allocate(64, stream); });
  std::vector<std::byte> span(small);
  for (Buffer& buffer : things.buffers) {
    if (buffer.size() != small) continue;
    for (const Stream* on : {&stream, &of_host}) {
      refused("fill", [&] { buffer.fill(after, *on); });
      refused("copy_to", [&] { buffer.copy_to(bytes, *on); });
      refused("copy_from", [&] { buffer.copy_from(bytes, *on); });
      refused("a copy", [&] { (void)buffer.copy_to(*on); });
      refused("copy_from a span", [&] { buffer.copy_from(std::span<const std::byte>(span), *on); });
      refused("copy_to a span", [&] { buffer.copy_to(std::span(span), *on); });
      refused("use_on", [&] { buffer.use_on(*on); });
      refused("ipc_descriptor", [&] { (void)buffer.ipc_descriptor(*on); });
      refused("to_dlpack", [&] { (void)buffer.view(u8, {small}).to_dlpack(*on); });
      refused("share", [&] { (void)buffer.share(); });
      refused("slice", [&] { (void)buffer.slice(0, 1); });
    }
    require(!buffer.host_data() && buffer.device_address() == 0, "no address is valid");
    require(buffer.device() == device && !buffer.is_closed() && buffer.memory_resource(), "observers answer");
  }
  refused("fill of host memory on the stream", [&] { bytes.fill(after, stream); });
  refused("a span into host memory on the stream", [&] { bytes.copy_from(std::span<const std::byte>(span), stream); });
}

// Whatever the answer is, it comes.
void ask_events(const std::vector<Event>& events) {
  for (const Event& event : events) {
    if (event.done()) continue;
    require(event.wait(std::chrono::seconds{10}) == WaitStatus::lost, "an open point of the parent is lost");
    refused("Event::wait", [&] { event.wait(); });
    refused("a host stream's wait", [&] { Stream(host_device()).wait(event); });
  }
}

void drop_everything(Things& things) {
  for (std::size_t i = 0; i < things.buffers.size(); i += 2) things.buffers[i].close();
  for (std::size_t i = 1; i < things.buffers.size(); i += 4) things.buffers[i].close(things.streams[0]);
  things.tensors.clear();
  things.buffers.clear();
  things.events.clear();
  things.streams.clear();
  things.resources.clear();
}

void verify(Things& things) {
  const Stream& stream = things.streams[0];
  for (const ResourcePtr& resource : things.resources) {
    Buffer buffer = resource->allocate(small, stream);
    buffer.fill(after, stream);
    std::vector<std::byte> bytes(small);
    buffer.copy_to(std::span(bytes), stream);
    stream.synchronize();
    require(bytes[0] == after && bytes[small - 1] == after, "the parent goes on");
  }
}

void idle_objects() {
  const Loaded driver;
  Things things(driver.device);
  things.resources.push_back(current_resource(driver.device));
  things.resources.back()->allocate(small, things.streams[0]).close();  // what is free now stays the parent's
  for (const Stream& stream : things.streams) stream.synchronize();
  in_child([&] {
    driver.libraries.forbid_new_ones();
    refuse_everything(things);
    ask_events(things.events);
    drop_everything(things);
    use_host();
  });
  verify(things);
}

void work_under_way() {
  const Loaded driver;
  Things things(driver.device);
  Latch latch;
  things.hold(latch.event);
  Things more(driver.device);
  const Stream of_host(host_device());
  Buffer waits = make_resource(host_device())->allocate(small, of_host);
  of_host.wait(things.streams[2].record());
  waits.fill(before, of_host);
  in_child([&] {
    driver.libraries.forbid_new_ones();
    set_failure_sink([](const Failure& failure) noexcept {
      require(failure.message.find("forked") != std::string_view::npos, "the sink is told why");
    });
    refuse_everything(things);
    ask_events(things.events);
    ask_events(more.events);
    drop_everything(more);
    drop_everything(things);
    require_error("what waits for a device of the parent", Errc::device_lost, "forked", [&] { of_host.synchronize(); });
    waits.close();
    use_host();
  });
  latch.open();
  of_host.synchronize();
  require(holds(waits, before), "work held back for the device is done in the parent");
  verify(things);
}

// The parent has never asked for a driver.
void first_use_in_the_child() {
  const Stream stream(host_device());
  in_child([&] {
    Things things(test::device_named(wanted.c_str()));
    verify(things);
    in_child([&] { refuse_everything(things); });
    verify(things);
  });
  Things things(test::device_named(wanted.c_str()));
  verify(things);
}

// One has closed its tensors, and alone keeps their memory.
void readers_of_held_sets() {
  const Loaded driver;
  const Folder folder;
  const std::string path = folder / "holder";
  ipc::Holder holder(path);
  std::thread serves([&] { holder.run(); });
  {
    const Stream stream(driver.device);
    ipc::SetWriter writer(path, "a");
    for (const KindInfo& info : driver.device.kinds()) {
      if (!info.exportable) continue;
      const std::size_t page = std::max(info.granularity, small);
      const auto pool = make_pool(make_resource(driver.device, info.kind, {.exportable = true}),
                                  {.segment_bytes = page, .growth = 0, .exportable = true});
      for (int i = 0; i < 4; ++i) {  // in a paged pool some of them lie in two pages
        Buffer buffer = pool->allocate(page / 4 * 3, stream);
        buffer.fill(before, stream);
        writer.add(std::string(to_string(info.kind)) + std::to_string(i),
                   buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}), stream);
      }
    }
    (void)writer.commit();
    std::optional<ipc::SetReader> done(std::in_place, path, "a"), reader(std::in_place, path, "a");
    (void)done->open(stream);
    std::optional<ipc::HeldSet> set(reader->open(stream));
    in_child([&] {
      driver.libraries.forbid_new_ones();
      done.reset();
      reader.reset();
      set.reset();
      use_host();
    });
    for (const auto& [name, tensor] : set->tensors) {
      std::vector<std::byte> bytes(tensor.buffer().size());
      tensor.buffer().copy_to(std::span(bytes), stream);
      stream.synchronize();
      require(bytes.front() == before && bytes.back() == before, "the parent's set stays");
    }
  }
  holder.stop();
  serves.join();
}

// Another thread is anywhere between its first call and a loaded driver.
void while_the_driver_loads() {
  const spi::DeviceState made_meanwhile;  // as by a thread that has found a device and does not know its backend yet
  std::latch begin(2);
  std::thread loads([&] {
    begin.arrive_and_wait();
    (void)devices();
  });
  begin.arrive_and_wait();
  for (int i = 0; i < 20; ++i) {
    in_child([] {
      use_host();
      for (const Device& device : devices()) {
        if (device.backend() == "host") continue;
        try {
          (void)Stream(device);
        } catch (const Error& error) {
          require(error.code() == Errc::unsupported, "a device of the parent is refused");
        }
        break;
      }
    });
  }
  loads.join();
  Things things(test::device_named(wanted.c_str()));
  verify(things);
}

constexpr Case cases[] = {{"idle_objects", idle_objects},
                          {"work_under_way", work_under_way},
                          {"first_use_in_the_child", first_use_in_the_child},
                          {"readers_of_held_sets", readers_of_held_sets},
                          {"while_the_driver_loads", while_the_driver_loads}};

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) {
  using namespace weir::test;
  if (count != 3) return 2;
  wanted = arguments[2];
  return run_case(cases, count, arguments);
}
