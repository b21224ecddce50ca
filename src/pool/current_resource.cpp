// SPDX-License-Identifier: Apache-2.0
#include "weir/current_resource.hpp"

#include <mutex>
#include <utility>

#include "weir/error.hpp"
#include "weir/pool.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace {

using Current = spi::DeviceState::Current;

// Return the pool that somebody still has, or make a new one. When two are made at once, one is dropped unused.
ResourcePtr default_pool(const Device& device) {
  Current& current = device.state().current;
  {
    const std::scoped_lock lock(current.mutex);
    if (ResourcePtr pool = current.pool.lock()) return pool;
  }
  ResourcePtr made = make_pool(device);
  const std::scoped_lock lock(current.mutex);
  if (ResourcePtr other = current.pool.lock()) return other;
  current.pool = made;
  return made;
}

}  // namespace

ResourcePtr current_resource(const Device& device) {
  device.state().check_process();
  Current& current = device.state().current;
  {
    const std::scoped_lock lock(current.mutex);
    if (current.resource) [[likely]]
      return current.resource;
  }
  ResourcePtr pool = default_pool(device);
  const std::scoped_lock lock(current.mutex);
  if (!current.resource) current.resource = std::move(pool);
  return current.resource;
}

ResourcePtr set_current_resource(const Device& device, ResourcePtr resource) {
  device.state().check_process();
  if (resource && resource->device() != device) {
    throw Error(Errc::incompatible, "set_current_resource: " + resource->name() + " is a resource of " +
                                        resource->device().state().describe() + ", not of " +
                                        device.state().describe());
  }
  if (!resource) resource = default_pool(device);
  (void)current_resource(device);  // make one if there is none yet, so that there is one to return
  Current& current = device.state().current;
  const std::scoped_lock lock(current.mutex);
  current.resource.swap(resource);
  return resource;
}

}  // namespace weir
