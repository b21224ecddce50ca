// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where Buffers come from. Resources are made by factories (host.hpp, cuda.hpp, vulkan.hpp, or make_resource below),
// shared by handle, thread-safe, and stack: a resource may be written over another. Then buffer.hpp.

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weir/device.hpp"
#include "weir/error.hpp"
#include "weir/fwd.hpp"
#include "weir/stream.hpp"

namespace weir {

/// Counters of a resource, in bytes unless named otherwise.
struct ResourceStats {
  std::size_t in_use = 0;        ///< sizes of live buffers
  std::size_t reserved = 0;      ///< held from the driver or upstream, memory waiting to be given back included
  std::size_t peak_in_use = 0;
  std::size_t peak_reserved = 0;
  std::size_t live_buffers = 0;  ///< count
  std::uint64_t allocations = 0; ///< count, ever
};

/// Abstract source of memory. Implement the private virtuals to write one; callers see only checked functions.
class MemoryResource : public std::enable_shared_from_this<MemoryResource> {
 public:
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;
  virtual ~MemoryResource();

  /// Allocate `bytes`, usable on `stream` at once and elsewhere after waiting for a point of it. `stream` may be of
  /// any device: it is where the memory's life begins and, unless `close(stream)` says otherwise, ends. Zero bytes
  /// succeed without a driver call. `alignment` is a power of two; less than default_alignment is rounded up to it.
  /// It is that of the device address, or of the host address of memory that has no other.
  /// Throws OutOfMemory when exhausted, Error{invalid_argument}.
  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream, std::size_t alignment = default_alignment);
  /// As above; nullopt for exhaustion, and for nothing else.
  [[nodiscard]] std::optional<Buffer> try_allocate(std::size_t bytes, const Stream& stream,
                                                   std::size_t alignment = default_alignment);

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< "cuda.vmm", "pool(cuda.vmm)"
  [[nodiscard]] bool is_host_accessible() const noexcept { return traits_.host_accessible; }
  [[nodiscard]] bool is_device_accessible() const noexcept { return traits_.device_accessible; }
  [[nodiscard]] MemoryKind kind() const noexcept { return traits_.kind; }
  /// Whether its buffers can be given to another process.
  [[nodiscard]] bool is_exportable() const noexcept { return traits_.exportable; }
  /// Whether a buffer's memory goes to other buffers after its end. Exports then keep it until every importer is done.
  [[nodiscard]] bool reuses_memory() const noexcept { return traits_.reuses_memory; }

  [[nodiscard]] virtual ResourceStats stats() const = 0;
  /// Give back memory that no buffer uses until at most `bytes_to_keep` of it remain. Waits on the host for the pending
  /// uses of what this resource and those under it got back before the call, and for nothing later. Returns the bytes
  /// given back. May throw for want of memory, also when it is a driver that cannot be asked for want of it; what is
  /// pending then goes back as it would have without the call.
  virtual std::size_t trim(std::size_t bytes_to_keep) = 0;
  /// The resource this one stands on; null when it stands on a driver.
  [[nodiscard]] virtual ResourcePtr upstream() const { return nullptr; }

 protected:
  struct Traits {
    MemoryKind kind = MemoryKind::external;
    bool host_accessible = false;
    bool device_accessible = false;
    bool exportable = false;
    bool reuses_memory = true;  ///< always safe; one over another resource passes on what that says
    /// When do_deallocate returns, it has kept or forgotten what uses the block has (Block::keep_uses), so that a closing
    /// caller's stream need not be retained for it. Never safe for who only puts the block aside.
    bool keeps_uses = false;
  };
  MemoryResource(Device device, std::string name, Traits traits);

  /// For resources that stand on another: take a block from `upstream` / give it back there.
  static spi::Block* allocate_from(MemoryResource& upstream, const spi::Request& request, Shortage& shortage);
  static void deallocate_to(MemoryResource& upstream, spi::Block& block) noexcept;
  static spi::Block* reserve_addresses_from(MemoryResource& upstream, std::size_t bytes, const Stream& stream);

 private:
  friend class Buffer;
  /// A block with one owner whose `resource` is this, or null with `shortage` filled. The resource must stay alive
  /// until the block came back (see BlockStore). bytes > 0.
  virtual spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) = 0;
  /// The same for what is at hand; null when do_allocate has to look for it. Asked first.
  virtual spi::Block* do_allocate_cached(const spi::Request& /*request*/) noexcept { return nullptr; }
  /// A block over a paged segment of at least `bytes` addresses, which counts as no bytes; null when this resource has
  /// none. Ended like every block.
  virtual spi::Block* do_reserve_addresses(std::size_t /*bytes*/, const Stream& /*stream*/) { return nullptr; }
  /// A handle for who has only a buffer. A resource that may outlive its handles makes a new one.
  virtual ResourcePtr do_handle() { return shared_from_this(); }
  /// Take back a block without owners. Its uses (Block::take_uses) may be pending; must not wait for them.
  virtual void do_deallocate(spi::Block& block) noexcept = 0;

  Buffer allocate_empty(const Stream& stream);
  Buffer allocate_uncached(const spi::Request& request);
  static void deallocate(spi::Block& block) noexcept;

  Device device_;
  std::string name_;
  Traits traits_;
};

/// Options that every kind of memory understands.
struct ResourceOptions {
  bool exportable = false;  ///< buffers can be given to another process; refused with `unsupported` where impossible
};

/// The plain resource of one memory kind: each buffer is one segment from the driver. Throws unsupported naming the
/// kinds that the device has.
[[nodiscard]] ResourcePtr make_resource(const Device& device, MemoryKind kind, const ResourceOptions& options = {});
/// The same for the device's default kind.
[[nodiscard]] ResourcePtr make_resource(const Device& device, const ResourceOptions& options = {});

}  // namespace weir
