// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program may still have when it ends: objects of every kind of memory of one device, with work on them.

#include <cstdlib>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/weir.hpp"

namespace weir::test {

inline constexpr std::size_t small = 64 << 10;

/// The plain resources of the device, also of memory that can be shared; and adaptors over the default one.
std::vector<ResourcePtr> resources_of(const Device& device);

/// The first device that `id` names. Only its backend is loaded when it is the host's.
inline Device device_named(const char* id) { return device(id); }

/// Live objects with work done, under way and held back, and memory that was closed while it was in use.
class Things {
 public:
  explicit Things(const Device& device);
  Things(const Things&) = delete;
  Things& operator=(const Things&) = delete;
  ~Things() = default;

  /// Hold `stream` back until `event`, put work behind, and close what it uses.
  void hold(const Event& event);
  /// Allocate, write, copy, share, export, close.
  void work();

  Device device;
  std::vector<ResourcePtr> resources;
  std::vector<Stream> streams;
  std::optional<Stream> viewer;  ///< of the device of another backend that is the same GPU, if there is one
  std::vector<Buffer> buffers;
  std::vector<Event> events;
  std::vector<ManagedTensor> tensors;
};

/// A host stream that stands still until `open`, or for ever: what it waits for is leaked.
struct Latch {
  std::promise<void>& promise = *new std::promise<void>;
  Stream stream{host_device()};
  Event event;

  Latch();
  void open() { promise.set_value(); }
};

/// Do `work` again and again until the process ends; a device that is gone with it ends the work, and nothing else.
[[noreturn]] void go_on(const std::function<void()>& work);

/// Keeps `count` threads busy with Things::work until the process ends; returns when each has begun.
void keep_working(const Device& device, int count);

/// Says that the program got to where it was to end.
void say_done();

/// One thing that a program can do.
struct Case {
  const char* name;
  void (*run)();
};
/// Do what the program's first argument names, and say so. Return the exit status.
int run_case(std::span<const Case> cases, int count, char** arguments);

}  // namespace weir::test
